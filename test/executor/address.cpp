// SPDX-License-Identifier: Apache-2.0
#include "address.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace executor {

namespace {

//! The first line of addr2line that does not name one of the executor's
//! headers.
std::string ask(char const* options, void const* address) {
  Dl_info info{};
  if (dladdr(address, &info) != 0) {
    auto const base     = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    bool const is_fixed = static_cast<ElfW(Ehdr) const*>(info.dli_fbase)->e_type == ET_EXEC;
    char line[4096];
    std::snprintf(line, sizeof(line), "addr2line -i -p %s -e '%s' %#zx 2>/dev/null", options,
                  info.dli_fname,
                  reinterpret_cast<std::uintptr_t>(address) - (is_fixed ? 0 : base));
    std::FILE* const lines = popen(line, "r");
    std::string found;
    while (lines != nullptr && std::fgets(line, sizeof(line), lines) != nullptr) {
      if (found.empty() && std::strstr(line, "executor/include/") == nullptr) {
        std::size_t const skipped = std::strncmp(line, " (inlined by) ", 14) == 0 ? 14 : 0;
        found.assign(line + skipped, std::strcspn(line + skipped, "\n"));
      }
    }
    if (lines != nullptr) {
      pclose(lines);
    }
    if (!found.empty()) {
      return found;
    }
  }
  return "an unknown place";
}

}  // namespace

std::string function_at(void const* address) { return ask("-C -f", address); }

std::string caller_of(void const* return_address) {
  return ask("",
             static_cast<char const*>(return_address) - 1);  // within the call
}

}  // namespace executor
