// SPDX-License-Identifier: Apache-2.0
//! @file
//! main() of every host test. Compiled once and shared: Catch2 2.13 is slow to compile.
#define CATCH_CONFIG_RUNNER
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#include <catch2/catch.hpp>
#endif

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
