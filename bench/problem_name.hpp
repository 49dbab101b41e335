// SPDX-License-Identifier: Apache-2.0
//! @file
//! Names of problems that can stand in a table, and name files, side by side. Knows no problem.
#pragma once

#include <algorithm>
#include <set>
#include <string>

namespace pageunion::bench {

//! A name of letters, digits, '.', '-' and '_' that is not among `taken`, made from the one that a
//! problem brings, and adds it there. Every other character becomes '_', and a dot in front too: a
//! pattern such as *.safetensors does not see a file whose name starts with one.
inline std::string claim_name(std::string const& wanted, std::set<std::string>& taken) {
  constexpr std::size_t max_length = 100;  // a file system takes 255 with what is put around it
  std::string const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  std::string safe          = wanted.empty() ? "problem" : wanted.substr(0, max_length);
  std::replace_if(
      safe.begin(), safe.end(), [&allowed](char c) { return allowed.find(c) == std::string::npos; },
      '_');
  safe[0]          = safe[0] == '.' ? '_' : safe[0];
  std::string name = safe;
  for (int number = 2; !taken.insert(name).second; ++number) {
    name = safe + "-" + std::to_string(number);
  }
  return name;
}

}  // namespace pageunion::bench
