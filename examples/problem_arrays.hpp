// SPDX-License-Identifier: Apache-2.0
//! @file
//! The arrays of verify_prefill's problem, and files of such problems. bench/problem_arrays.cpp reads and
//! writes them where the benchmarks are built too; elsewhere the program knows no files.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pageunion/prefill.hpp>

//! Host memory that the views of a call point into.
struct problem_arrays {
  std::vector<std::int32_t> selected;         //!< the token or page table
  std::vector<std::int32_t> counts;           //!< of a token table; empty = none
  std::vector<std::int32_t> row_request;      //!< [rows]
  std::vector<std::int64_t> row_position;     //!< [rows]
  std::vector<std::int32_t> sequence_length;  //!< [requests]
  std::vector<std::int32_t> block_table;      //!< [requests, width]
  std::vector<__half> q;                      //!< [rows, heads, head_dim]
  std::vector<__half> kv;                     //!< K and V, as the strides say
  std::size_t k_first = 0;                    //!< element of kv where K starts
  std::size_t v_first = 0;                    //!< element of kv where V starts
};

//! Takes the problem of a file: heads and pages must be those of the default policy. Ends the program
//! with a sentence if something of it is wrong.
//! @param args views of the arrays, and the scale
void read_problem(std::string const& path, pageunion::prefill_args& args, problem_arrays& arrays);

//! Writes a problem whose selection is a token table without counts, and ends the program.
[[noreturn]] void write_problem(std::string const& path, pageunion::prefill_args const& args,
                                problem_arrays const& arrays);
