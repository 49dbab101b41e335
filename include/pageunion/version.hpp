// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 0. The library's version, here and nowhere else: CMakeLists.txt reads these lines.
//! While the major version is 0, a change of the minor version may change the interface.
//! Beside it the namespaces that carry the version, and the library's only macros.
#pragma once

#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "pageunion: its headers need C++17 or later: -std=c++17, or CMAKE_CUDA_STANDARD 17."
#endif

#define PAGEUNION_VERSION_MAJOR 0
#define PAGEUNION_VERSION_MINOR 1
#define PAGEUNION_VERSION_PATCH 0
//! One number to compare, as in #if PAGEUNION_VERSION >= 100, which is 0.1.0.
#define PAGEUNION_VERSION \
  (PAGEUNION_VERSION_MAJOR * 10000 + PAGEUNION_VERSION_MINOR * 100 + PAGEUNION_VERSION_PATCH)

// Inline namespaces: v0_1_0, so that two versions of the library in one program keep apart; and
// sm_700750 of a compilation for 700,750 (nvcc tells its list from 11.5), so that with several such
// lists in one program every call finds the kernels that were compiled with it.
#define PAGEUNION_JOIN_VERSION(major, minor, patch) v##major##_##minor##_##patch
#define PAGEUNION_NAME_VERSION(...) PAGEUNION_JOIN_VERSION(__VA_ARGS__)
#define PAGEUNION_JOIN_LIST(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, ...) \
  sm_##a##b##c##d##e##f##g##h##i##j##k##l##m##n##o##p##q##r##s##t
#define PAGEUNION_NAME_LIST(...) \
  PAGEUNION_JOIN_LIST(__VA_ARGS__, , , , , , , , , , , , , , , , , , , , )
#ifdef __CUDA_ARCH_LIST__
#define PAGEUNION_ARCHITECTURES PAGEUNION_NAME_LIST(__CUDA_ARCH_LIST__)
#else
#define PAGEUNION_ARCHITECTURES sm_unknown
#endif
// Nobody sees what is so marked in a shared library, whatever flags it is built with.
#ifdef __GNUC__
#define PAGEUNION_HIDDEN __attribute__((visibility("hidden")))
#else
#define PAGEUNION_HIDDEN
#endif

// clang-format off
//! What host files and device files share: its names do not depend on the compiler.
#define PAGEUNION_NAMESPACE_BEGIN namespace pageunion { inline namespace PAGEUNION_NAME_VERSION( \
  PAGEUNION_VERSION_MAJOR, PAGEUNION_VERSION_MINOR, PAGEUNION_VERSION_PATCH) {
#define PAGEUNION_NAMESPACE_END }}
//! The part of it that is no interface.
#define PAGEUNION_DETAIL_NAMESPACE_BEGIN PAGEUNION_NAMESPACE_BEGIN \
  namespace detail PAGEUNION_HIDDEN {
#define PAGEUNION_DETAIL_NAMESPACE_END PAGEUNION_NAMESPACE_END }
//! What nvcc alone compiles, kernels and what launches them: its names tell the architectures.
#define PAGEUNION_DEVICE_NAMESPACE_BEGIN PAGEUNION_NAMESPACE_BEGIN \
  inline namespace PAGEUNION_ARCHITECTURES PAGEUNION_HIDDEN {
#define PAGEUNION_DEVICE_NAMESPACE_END PAGEUNION_NAMESPACE_END }
//! The part of it that is no interface, in the one namespace detail.
#define PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN PAGEUNION_DETAIL_NAMESPACE_BEGIN \
  inline namespace PAGEUNION_ARCHITECTURES PAGEUNION_HIDDEN {
#define PAGEUNION_DEVICE_DETAIL_NAMESPACE_END PAGEUNION_DETAIL_NAMESPACE_END }
// clang-format on
