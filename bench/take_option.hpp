// SPDX-License-Identifier: Apache-2.0
//! @file
//! Options of a command line. Knows no option.
#pragma once

#include <algorithm>
#include <string>

namespace pageunion::bench {

//! Takes "--name value" or "--name=value" out of the arguments and returns the value, or what else if
//! there is no such option.
inline std::string take_option(int& argc, char** argv, std::string const& name,
                               std::string const& otherwise = "") {
  for (int i = 1; i < argc; ++i) {
    std::string const argument = argv[i];
    bool const is_joined       = argument.rfind(name + "=", 0) == 0;
    if (is_joined || (argument == name && i + 1 < argc)) {
      std::string const value = is_joined ? argument.substr(name.size() + 1) : argv[i + 1];
      int const used          = is_joined ? 1 : 2;
      std::copy(argv + i + used, argv + argc, argv + i);
      argc -= used;
      return value;
    }
  }
  return otherwise;
}

}  // namespace pageunion::bench
