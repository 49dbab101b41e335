// SPDX-License-Identifier: Apache-2.0
//! @file
//! main() of every host test.
#include "support/catch_runner.hpp"

int main(int argc, char** argv) { return pageunion::test::run_catch(argc, argv); }
