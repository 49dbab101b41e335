// SPDX-License-Identifier: Apache-2.0
//! @file
//! Says in what two reports differ.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <pageunion/plan.hpp>

namespace pageunion::test {

//! A report's counters by name, the bins of its histogram last.
inline std::vector<std::pair<std::string, unsigned long long>> counters_of(plan_report const& r) {
  std::vector<std::pair<std::string, unsigned long long>> all = {
      {"rows", r.rows},
      {"bad_request_rows", r.bad_request_rows},
      {"empty_rows", r.empty_rows},
      {"entries", r.entries},
      {"negative", r.negative},
      {"not_visible", r.not_visible},
      {"past_table", r.past_table},
      {"unmapped_block", r.unmapped_block},
      {"over_capacity", r.over_capacity},
      {"groups", r.groups},
      {"union_pages", r.union_pages},
      {"padded_pages", r.padded_pages},
      {"row_pages", r.row_pages},
      {"largest_union", r.largest_union},
  };
  for (unsigned long long const bin : r.histogram) {
    all.push_back({"histogram", bin});
  }
  return all;
}

//! Says which counter of a report differs from the host's after so many calls; empty if none.
inline std::string difference(plan_report const& device, plan_report const& host, int calls = 1) {
  auto const found = counters_of(device), expected = counters_of(host);
  for (std::size_t i = 0; i < found.size(); ++i) {
    auto const& [name, of_one_call] = expected[i];
    if (found[i].second != of_one_call * (name == "largest_union" ? 1 : calls)) {
      return name + " is " + std::to_string(found[i].second) + ", of one call " +
             std::to_string(of_one_call);
    }
  }
  return "";
}

}  // namespace pageunion::test
