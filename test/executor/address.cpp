// SPDX-License-Identifier: Apache-2.0
#include "address.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <memory>

namespace executor {

std::string place_of(void const* address, char const* options) {
  Dl_info info{};
  link_map* object = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) != 0) {
    char line[4096];
    std::snprintf(
        line, sizeof(line), "addr2line -i -p %s -e '%s' %#tx 2>/dev/null", options, info.dli_fname,
        static_cast<char const*>(address) - reinterpret_cast<char const*>(object->l_addr));
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> const lines(popen(line, "r"), &pclose);
    while (lines != nullptr && std::fgets(line, sizeof(line), lines.get()) != nullptr) {
      if (!std::strstr(line, "executor/include/") && !std::strstr(line, "/cuda_fp16.")) {
        std::size_t const skipped = std::strncmp(line, " (inlined by) ", 14) == 0 ? 14 : 0;
        return std::string(line + skipped, std::strcspn(line + skipped, "\n"));
      }
    }
  }
  return "an unknown place";
}

}  // namespace executor
