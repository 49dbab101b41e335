// SPDX-License-Identifier: Apache-2.0
#include "code_address.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace executor {

namespace {

//! What addr2line says: its lines, none if it is not there.
std::vector<std::string> addr2line(char const* options, std::uintptr_t address) {
  std::vector<std::string> lines;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void const*>(address), &info) == 0 || info.dli_fname == nullptr) {
    return lines;
  }
  auto const base     = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  bool const is_fixed = reinterpret_cast<ElfW(Ehdr) const*>(base)->e_type == ET_EXEC;
  char number[32];
  std::snprintf(number, sizeof(number), "0x%llx",
                static_cast<unsigned long long>(is_fixed ? address : address - base));
  std::string const command = std::string("addr2line ") + options + " -e '" + info.dli_fname +
                              "' " + number + " 2>/dev/null";
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    return lines;
  }
  char line[4096];
  while (std::fgets(line, sizeof(line), pipe) != nullptr) {
    std::string text(line);
    text.erase(text.find_last_not_of('\n') + 1);
    lines.push_back(text);
  }
  pclose(pipe);
  return lines;
}

}  // namespace

std::string function_of(void const* address) {
  // Two lines a frame, name and place; the outermost frame is last.
  auto const lines = addr2line("-C -f -i", reinterpret_cast<std::uintptr_t>(address));
  return lines.size() < 2 ? "an unnamed kernel" : lines[lines.size() - 2];
}

std::string source_of(void const* return_address) {
  // One byte before is within the call.
  for (auto const& line : addr2line("-i", reinterpret_cast<std::uintptr_t>(return_address) - 1)) {
    if (line.find("executor/include/") == std::string::npos && line.find("??") != 0) {
      return line;
    }
  }
  return "an unknown line";
}

}  // namespace executor
