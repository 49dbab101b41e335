// SPDX-License-Identifier: Apache-2.0
//! @file
//! Catch2's runner behind one function, so that it is compiled once for all test executables:
//! version 2.13 brings the whole framework with it.
#pragma once

namespace pageunion::test {

//! Runs the test cases that the command line names; returns the exit code of main().
int run_catch(int argc, char** argv);

}  // namespace pageunion::test
