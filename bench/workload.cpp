// SPDX-License-Identifier: Apache-2.0
#include "workload.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thread>

namespace pageunion::bench {
namespace {

//! The specification with all widths set.
problem_spec with_widths(problem_spec spec) {
  int const pages       = spec.pages_per_row;
  bool const is_by_page = spec.kind == selection_kind::pages;
  spec.width            = is_by_page ? pages : pages * spec.page_tokens + spec.page_tokens - 1;
  spec.max_pages        = pages + 1;
  return spec;
}

//! The pages of a row, ascending, each with the row's request in front, so that equal pages of
//! different requests differ.
std::vector<std::int64_t> pages_of_row(host_problem const& p, int row, std::size_t& num_tokens) {
  std::vector<std::int32_t> const tokens = p.tokens_of(row);
  std::vector<std::int64_t> pages;
  for (std::int32_t const token : tokens) {
    std::int64_t const page = (std::int64_t{p.row_request[row]} << 32) + token / p.page_tokens;
    if (pages.empty() || pages.back() != page) {
      pages.push_back(page);
    }
  }
  num_tokens = tokens.size();
  return pages;
}

//! Calls `body(i)` once for every i in [0, count), on all threads of the host.
template <class Body>
void parallel_for(std::int64_t count, Body const& body) {
  std::int64_t const num_threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < num_threads; ++t) {
    threads.emplace_back([=, &body] {
      for (std::int64_t i = count * t / num_threads; i < count * (t + 1) / num_threads; ++i) {
        body(i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace

std::vector<std::string> workload_names() {
  return {"fresh-8k", "chunk-32k", "long-tail", "long-tail-131k", "disjoint", "verify"};
}

void set_context(problem_spec& workload, int tokens) {
  workload.min_length = tokens;
  workload.max_length = tokens;
}

std::optional<problem_spec> named_workload(std::string_view name) {
  problem_spec spec;
  spec.name          = std::string(name);
  spec.num_rows      = 8192;
  spec.pages_per_row = 512;
  spec.block_tokens  = 784;
  spec.spare_blocks  = 0;
  spec.spare_columns = 0;
  spec.columns       = column_order::ascending;
  spec.unselected    = cache_fill::values;
  set_context(spec, 8192);
  if (name == "chunk-32k") {
    set_context(spec, 32768);
  } else if (name == "long-tail" || name == "long-tail-131k") {
    set_context(spec, name == "long-tail" ? 32768 : 131072);
    spec.rho = 0.9;
  } else if (name == "disjoint") {
    set_context(spec, 65536);
    spec.num_rows = 512;
    spec.pattern  = page_pattern::disjoint;
  } else if (name == "verify") {
    spec.num_rows = 64;
  } else if (name != "fresh-8k") {
    return std::nullopt;
  }
  return spec;
}

problem_spec overlap_step(int step) {
  // By measure_overlap() they grow by 1.05, 1.21, 1.39, 1.70, 2.35, 3.19 and 3.96 at 8 rows.
  constexpr double rho[num_overlap_steps] = {0.9998, 0.997, 0.99, 0.97, 0.9, 0.75, 0.52};
  problem_spec spec                       = *named_workload("chunk-32k");
  spec.name                               = "overlap-" + std::to_string(step);
  spec.rho                                = rho[step];
  return spec;
}

host_problem make_workload(problem_spec const& workload) {
  return make_problem(with_widths(workload));
}

host_problem make_tables(problem_spec const& workload) {
  return test::make_tables(with_widths(workload));
}

overlap measure_overlap(host_problem const& p) {
  std::vector<std::vector<std::int64_t>> pages(p.num_rows);
  std::vector<std::size_t> tokens(p.num_rows);
  parallel_for(p.num_rows, [&](std::int64_t row) {
    pages[row] = pages_of_row(p, static_cast<int>(row), tokens[row]);
  });

  overlap o;
  double total_pages = 0.0;
  for (std::int32_t row = 0; row < p.num_rows; ++row) {
    total_pages += static_cast<double>(pages[row].size());
    o.asked_tokens += static_cast<double>(tokens[row]);
  }
  o.asked_flop    = 4.0 * o.asked_tokens * p.num_heads() * p.head_dim;
  o.pages_per_row = p.num_rows == 0 ? 0.0 : total_pages / p.num_rows;

  // Pages of the union of `rows` rows from `first` on.
  auto const union_pages = [&pages](std::int64_t first, std::int64_t rows) {
    std::vector<std::int64_t> all;
    for (std::int64_t row = first; row < first + rows; ++row) {
      all.insert(all.end(), pages[row].begin(), pages[row].end());
    }
    std::sort(all.begin(), all.end());
    return static_cast<double>(std::unique(all.begin(), all.end()) - all.begin());
  };

  if (p.num_rows > 1) {
    std::vector<double> jaccard(p.num_rows - 1);
    parallel_for(p.num_rows - 1, [&](std::int64_t row) {
      double const both   = static_cast<double>(pages[row].size() + pages[row + 1].size());
      double const either = union_pages(row, 2);
      jaccard[row]        = either == 0.0 ? 1.0 : (both - either) / either;
    });
    o.jaccard = std::accumulate(jaccard.begin(), jaccard.end(), 0.0) / (p.num_rows - 1);
  }
  for (int i = 0; i < 4; ++i) {
    std::int64_t const rows   = growth_rows[i];
    std::int64_t const groups = (p.num_rows + rows - 1) / rows;
    std::vector<double> unions(groups);
    parallel_for(groups, [&](std::int64_t group) {
      std::int64_t const first = group * rows;
      unions[group]            = union_pages(first, std::min(rows, p.num_rows - first));
    });
    // Weighted by size: what the unions load over what one row of each group would load.
    double const loaded = std::accumulate(unions.begin(), unions.end(), 0.0);
    o.growth[i]         = total_pages == 0.0 ? 0.0
                                             : loaded * static_cast<double>(p.num_rows) /
                                           (static_cast<double>(groups) * total_pages);
  }
  return o;
}

std::string to_string(overlap const& o) {
  char text[160];
  std::snprintf(text, sizeof text,
                "Jaccard %.3f, union growth at 2/4/8/16 rows %.2f / %.2f / %.2f / %.2f, "
                "%.1f pages per row",
                o.jaccard, o.growth[0], o.growth[1], o.growth[2], o.growth[3], o.pages_per_row);
  return text;
}

}  // namespace pageunion::bench
