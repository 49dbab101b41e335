// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 0. The library's version, here and nowhere else: CMakeLists.txt reads these lines.
//! While the major version is 0, a change of the minor version may change the interface.
#pragma once

#define PAGEUNION_VERSION_MAJOR 0
#define PAGEUNION_VERSION_MINOR 1
#define PAGEUNION_VERSION_PATCH 0
