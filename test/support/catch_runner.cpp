// SPDX-License-Identifier: Apache-2.0
//! @file
//! The one source that compiles Catch2's runner, of version 3 or 2.13.
#define CATCH_CONFIG_RUNNER
#include "support/catch_runner.hpp"

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#include <catch2/catch.hpp>
#endif

int pageunion::test::run_catch(int argc, char** argv) { return Catch::Session().run(argc, argv); }
