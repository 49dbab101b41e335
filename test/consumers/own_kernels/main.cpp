// SPDX-License-Identifier: Apache-2.0
//! @file
//! Succeeds if each of two libraries has launchers and kernels of its own.
#include <cstdio>

extern "C" void library_75(void const* addresses[2]);
extern "C" void library_80(void const* addresses[2]);

int main() {
  void const *first[2], *second[2];
  library_75(first);
  library_80(second);
  std::printf("launchers: %p %p, kernels: %p %p\n", first[0], second[0], first[1], second[1]);
  return first[0] == second[0] || first[1] == second[1] ? 1 : 0;
}
