// SPDX-License-Identifier: Apache-2.0
// problem_copy FILE           writes a small generated problem
// problem_copy FILE FROM      reads FROM and writes what it read
#include <cstdio>
#include <cstdlib>
#include <string>

#include "../problem_file.hpp"

namespace bench = pageunion::bench;

int main(int argc, char** argv) {
  bench::host_problem p;
  std::string error;
  if (argc == 3) {
    error = bench::read_problem(argv[2], p);
  } else {
    bench::problem_spec shape = *bench::named_workload("verify");
    shape.num_rows            = 8;
    bench::set_context(shape, 300);
    shape.pages_per_row = 16;
    shape.head_dim      = 64;
    shape.block_tokens  = 36;
    p                   = bench::make_workload(shape);
  }
  if (error.empty()) {
    error = bench::write_problem(argv[1], p);
  }
  std::fprintf(stderr, "%s", error.c_str());
  return error.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}
