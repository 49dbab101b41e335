// SPDX-License-Identifier: Apache-2.0
//! @file
//! What is wrong after a call of an attention: results against the reference, and memory that was not
//! to change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <pageunion/reference.hpp>

#include "device_problem.cuh"
#include "problem.hpp"
#include "tolerance.hpp"

namespace pageunion::test {

inline std::vector<std::int32_t> all_rows(host_problem const& p) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(p.spec.num_rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

//! A problem's results beside the reference's.
struct row_comparisons {
  comparison out;
  comparison lse;
};

//! Compares the sampled rows with the reference by the derived bounds.
inline row_comparisons compare_rows(device_problem const& device,
                                    std::vector<std::int32_t> const& rows) {
  host_problem const& p = device.host();
  reference_result expected;
  reference_rows(p.rows(), p.selected(), p.operands(), p.spec.page_tokens, rows, expected);
  std::vector<output_bound> const bounds =
      output_bounds(p.rows(), p.selected(), p.operands(), p.spec.page_tokens, rows, expected);
  std::vector<double> const all_out = device.out();
  std::vector<double> const all_lse = device.lse();
  auto const heads                  = static_cast<std::size_t>(p.num_heads());
  auto const row_size               = heads * static_cast<std::size_t>(p.spec.head_dim);
  std::vector<double> sampled_out, sampled_lse;
  for (std::int32_t const row : rows) {
    auto const r = static_cast<std::ptrdiff_t>(row);
    auto const n = static_cast<std::ptrdiff_t>(row_size), h = static_cast<std::ptrdiff_t>(heads);
    sampled_out.insert(sampled_out.end(), all_out.begin() + r * n, all_out.begin() + (r + 1) * n);
    sampled_lse.insert(sampled_lse.end(), all_lse.begin() + r * h, all_lse.begin() + (r + 1) * h);
  }
  return {compare_outputs(sampled_out, expected.out, bounds, p.spec.head_dim),
          compare_lse(sampled_lse, expected.lse, p.spec.lse_base)};
}

//! What is wrong with the results of a problem, or with memory that was not to change; empty if
//! nothing. Compares the sampled rows with the reference: by the derived bounds, and all of them
//! together by the project's relative L2.
inline std::string faults_of_rows(device_problem const& device,
                                  std::vector<std::int32_t> const& rows) {
  row_comparisons const found_in = compare_rows(device, rows);
  comparison const& out          = found_in.out;
  comparison const& lse          = found_in.lse;
  std::string found              = device.damage();
  found += out.is_within_bounds() ? "" : "out: " + out.failure + "; ";
  found += lse.is_within_bounds() ? "" : "lse: " + lse.failure + "; ";
  if (out.relative_l2 > required_relative_l2) {
    found += "relative L2 error " + std::to_string(out.relative_l2) + "; ";
  }
  return found;
}

}  // namespace pageunion::test
