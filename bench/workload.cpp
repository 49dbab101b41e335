// SPDX-License-Identifier: Apache-2.0
#include "workload.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <utility>

#include <pageunion/rules.hpp>

#include "parallel_for.hpp"

namespace pageunion::bench {
namespace {

//! Integer hash "lowbias32" by Chris Wellons (public domain): every output bit depends on every
//! input bit. A counter-based generator makes the values independent of the number of threads.
constexpr std::uint32_t hash(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

//! Nearly normal, mean 0, deviation 1: four uniform 16-bit numbers of a hash pair, summed. Scores are
//! sums of several of these, which is close enough to normal for a choice of the best.
float noise(std::uint32_t seed, std::uint32_t counter) {
  std::uint32_t const a = hash(counter ^ seed);
  std::uint32_t const b = hash(a ^ 0x9e3779b9u);
  auto const sum = static_cast<std::int32_t>((a & 0xffffu) + (a >> 16) + (b & 0xffffu) + (b >> 16));
  constexpr float mean      = 2.0f * 65535.0f;
  constexpr float per_sigma = 1.7320508f / 65536.0f;  // four of variance 65536^2 / 12
  return (static_cast<float>(sum) - mean) * per_sigma;
}

//! Scores of every page for one row after another.
class score_walk {
 public:
  score_walk(workload_shape const& shape, std::uint32_t seed, std::int32_t num_pages)
      : seed_(seed),
        rho_(static_cast<float>(shape.rho)),
        fresh_(static_cast<float>(std::sqrt(1.0 - shape.rho * shape.rho))),
        fixed_(num_pages),
        state_(num_pages) {
    std::uint32_t const fixed_seed = hash(seed + 1);
    std::uint32_t const first_seed = hash(seed + 2);
    auto const deviation           = static_cast<float>(shape.fixed_deviation);
    for (std::int32_t page = 0; page < num_pages; ++page) {
      auto const counter = static_cast<std::uint32_t>(page) * 4;
      float const normal = noise(fixed_seed, counter) + noise(fixed_seed, counter + 1) +
                           noise(fixed_seed, counter + 2) + noise(fixed_seed, counter + 3);
      fixed_[page] = 0.5f * deviation * normal;
      state_[page] = noise(first_seed, counter);
    }
  }

  //! Writes scores [num_rows, num_pages] of the next num_rows rows, the first of which is `first_row`.
  void advance(std::int32_t first_row, std::int32_t num_rows, float* scores) {
    auto const num_pages = static_cast<std::int64_t>(state_.size());
    parallel_ranges(num_pages, [&](std::int64_t begin, std::int64_t end) {
      for (std::int32_t row = 0; row < num_rows; ++row) {
        auto const base   = static_cast<std::uint32_t>((first_row + row) * num_pages);
        float* const line = scores + row * num_pages;
        for (std::int64_t page = begin; page < end; ++page) {
          state_[page] =
              rho_ * state_[page] + fresh_ * noise(seed_, base + static_cast<std::uint32_t>(page));
          line[page] = fixed_[page] + state_[page];
        }
      }
    });
  }

 private:
  std::uint32_t seed_;
  float rho_;
  float fresh_;
  std::vector<float> fixed_;
  std::vector<float> state_;
};

//! The `wanted` pages of highest score among the first `num_pages`, ascending. `scratch` is reused.
void best_pages(float const* scores, std::int32_t num_pages, std::int32_t wanted,
                std::vector<float>& scratch, std::vector<std::int32_t>& pages) {
  pages.clear();
  if (num_pages <= wanted) {
    pages.resize(num_pages);
    std::iota(pages.begin(), pages.end(), 0);
    return;
  }
  scratch.assign(scores, scores + num_pages);
  auto const last = scratch.begin() + (wanted - 1);
  std::nth_element(scratch.begin(), last, scratch.end(), std::greater<float>());
  float const threshold = *last;
  auto ties             = wanted - std::count_if(scores, scores + num_pages,
                                                 [threshold](float s) { return s > threshold; });
  for (std::int32_t page = 0; page < num_pages; ++page) {
    if (scores[page] > threshold || (scores[page] == threshold && ties-- > 0)) {
      pages.push_back(page);
    }
  }
}

//! Writes one row of the selection from its fully visible pages.
void write_row(problem& p, std::int32_t row, std::vector<std::int32_t> const& pages) {
  std::int32_t* entry = p.selected.data() + static_cast<std::int64_t>(row) * p.width;
  if (p.kind == selection_kind::pages) {
    std::copy(pages.begin(), pages.end(), entry);
    return;
  }
  for (std::int32_t const page : pages) {
    for (std::int32_t t = 0; t < p.page_tokens; ++t) {
      *entry++ = page * p.page_tokens + t;
    }
  }
  auto const end = static_cast<std::int32_t>(p.row_position[row] + 1);
  for (std::int32_t token = end - end % p.page_tokens; token < end; ++token) {
    *entry++ = token;
  }
}

//! Rows of one request choose by score.
void choose_scored(workload_shape const& shape, problem& p, std::int32_t request,
                   std::int32_t rows_per_request) {
  std::int32_t const num_pages = shape.context / shape.page_tokens;
  std::int32_t const first_row = request * rows_per_request;
  constexpr std::int32_t batch = 64;  // rows whose scores are held at once
  score_walk walk(shape, hash(shape.seed * 0x9e3779b9u + static_cast<std::uint32_t>(request)),
                  num_pages);
  std::vector<float> scores(static_cast<std::size_t>(batch) * num_pages);
  for (std::int32_t begin = 0; begin < rows_per_request; begin += batch) {
    std::int32_t const rows = std::min(batch, rows_per_request - begin);
    walk.advance(begin, rows, scores.data());
    parallel_ranges(rows, [&](std::int64_t first, std::int64_t end) {
      std::vector<float> scratch;
      std::vector<std::int32_t> pages;
      for (std::int64_t i = first; i < end; ++i) {
        auto const row     = static_cast<std::int32_t>(first_row + begin + i);
        auto const visible = static_cast<std::int32_t>(p.row_position[row] + 1);
        best_pages(scores.data() + i * num_pages, visible / shape.page_tokens, shape.selected_pages,
                   scratch, pages);
        write_row(p, row, pages);
      }
    });
  }
}

//! Rows of one request take turns through slices of one permutation of the pages: a row meets its
//! slice again only after every other slice had its turn.
void choose_disjoint(workload_shape const& shape, problem& p, std::int32_t request,
                     std::int32_t rows_per_request) {
  std::int32_t const visible    = (shape.context - rows_per_request) / shape.page_tokens;
  std::int32_t const num_slices = std::max(1, visible / shape.selected_pages);
  std::vector<std::int32_t> permuted(visible);
  std::iota(permuted.begin(), permuted.end(), 0);
  std::mt19937 generator(hash(shape.seed + static_cast<std::uint32_t>(request)));
  std::shuffle(permuted.begin(), permuted.end(), generator);
  for (std::int32_t i = 0; i < rows_per_request; ++i) {
    std::int32_t const begin = i % num_slices * shape.selected_pages;
    std::int32_t const end   = std::min(begin + shape.selected_pages, visible);
    std::vector<std::int32_t> pages(permuted.begin() + begin, permuted.begin() + end);
    std::sort(pages.begin(), pages.end());
    write_row(p, request * rows_per_request + i, pages);
  }
}

//! Values for Q, K or V.
void fill(std::vector<__half>& values, std::uint32_t seed) {
  parallel_for(static_cast<std::int64_t>(values.size()), [&](std::int64_t i) {
    values[i] = __float2half_rn(noise(seed, static_cast<std::uint32_t>(i)));
  });
}

//! The distinct pages of a row's visible entries, ascending, each with the row's request in front, so
//! that equal pages of different requests differ.
void pages_of_row(problem const& p, std::int32_t row, std::vector<std::int64_t>& pages,
                  std::int64_t& tokens) {
  pages.clear();
  tokens                     = 0;
  std::int32_t const request = p.row_request[row];
  if (!is_request(request, p.num_requests)) {
    return;
  }
  std::int32_t const end      = visible_end(p.row_position[row], p.sequence_length[request]);
  std::int64_t const first    = static_cast<std::int64_t>(request) << 32;
  std::int32_t const* entries = p.selected.data() + static_cast<std::int64_t>(row) * p.width;
  std::int32_t const used     = p.counts.empty() ? p.width : entries_in_use(p.counts[row], p.width);
  bool const by_token         = p.kind == selection_kind::tokens;
  std::vector<std::int64_t> listed;
  for (std::int32_t i = 0; i < used; ++i) {
    std::int64_t const token = std::int64_t{entries[i]} * (by_token ? 1 : p.page_tokens);
    if (check_token(token, end, p.block_tokens, p.table_width) == drop_reason::none) {
      listed.push_back(token);
    }
  }
  if (!by_token && tail_page(end, p.page_tokens) >= 0) {
    listed.push_back(std::int64_t{tail_page(end, p.page_tokens)} * p.page_tokens);
  }
  std::sort(listed.begin(), listed.end());
  listed.erase(std::unique(listed.begin(), listed.end()), listed.end());
  for (std::int64_t const token : listed) {
    tokens += by_token ? 1 : std::min<std::int64_t>(p.page_tokens, end - token);
    std::int64_t const page = first + token / p.page_tokens;
    if (pages.empty() || pages.back() != page) {
      pages.push_back(page);
    }
  }
}

}  // namespace

batch problem::rows() const {
  batch b;
  b.num_rows        = num_rows;
  b.row_request     = row_request.data();
  b.row_position    = row_position.data();
  b.sequence_length = sequence_length.data();
  return b;
}

selection problem::selection_view() const {
  if (kind == selection_kind::pages) {
    page_table table;
    table.pages      = selected.data();
    table.width      = width;
    table.row_stride = width;
    return table;
  }
  token_table table;
  table.tokens     = selected.data();
  table.width      = width;
  table.row_stride = width;
  table.counts     = counts.empty() ? nullptr : counts.data();
  table.max_pages  = max_pages;
  return table;
}

attention_operands problem::operands() const {
  attention_operands o;
  o.q.data             = q.data();
  o.q.num_heads        = num_heads;
  o.q.head_dim         = head_dim;
  o.q.head_stride      = head_dim;
  o.q.row_stride       = static_cast<std::int64_t>(num_heads) * head_dim;
  o.cache.k            = kv_storage.data() + k_offset;
  o.cache.v            = kv_storage.data() + v_offset;
  o.cache.k_strides    = k_strides;
  o.cache.v_strides    = v_strides;
  o.cache.num_blocks   = num_blocks;
  o.cache.block_tokens = block_tokens;
  o.cache.num_kv_heads = num_kv_heads;
  o.cache.blocks       = {block_table.data(), num_requests, table_width, table_width};
  o.out.head_stride    = head_dim;
  o.out.row_stride     = o.q.row_stride;
  o.lse.row_stride     = num_heads;
  o.scale              = scale;
  return o;
}

std::vector<std::string> workload_names() {
  return {"fresh-8k", "chunk-32k", "long-tail", "long-tail-131k", "disjoint", "verify"};
}

std::optional<workload_shape> named_workload(std::string_view name) {
  workload_shape shape;
  shape.name = std::string(name);
  if (name == "fresh-8k") {
    return shape;
  }
  if (name == "chunk-32k") {
    shape.context = 32768;
    return shape;
  }
  if (name == "long-tail" || name == "long-tail-131k") {
    shape.context = name == "long-tail" ? 32768 : 131072;
    shape.rho     = 0.9;
    return shape;
  }
  if (name == "disjoint") {
    shape.num_rows = 512;
    shape.context  = 65536;
    shape.chosen   = choice::disjoint;
    return shape;
  }
  if (name == "verify") {
    shape.num_rows = 64;
    return shape;
  }
  return std::nullopt;
}

workload_shape overlap_step(int step) {
  // By measure_overlap() they grow by 1.05, 1.21, 1.39, 1.70, 2.35, 3.19 and 3.96 at 8 rows.
  constexpr std::array<std::pair<double, double>, num_overlap_steps> deviation_and_rho{
      {{0.7, 0.9998},
       {0.7, 0.997},
       {0.7, 0.99},
       {0.7, 0.97},
       {0.7, 0.9},
       {0.7, 0.75},
       {0.7, 0.52}}};
  workload_shape shape;
  shape.name            = "overlap-" + std::to_string(step);
  shape.context         = 32768;
  shape.fixed_deviation = deviation_and_rho[step].first;
  shape.rho             = deviation_and_rho[step].second;
  return shape;
}

problem make_tables(workload_shape const& shape) {
  problem p;
  p.name         = shape.name;
  p.num_rows     = shape.num_rows;
  p.num_requests = shape.num_requests;
  p.num_heads    = shape.num_heads;
  p.num_kv_heads = shape.num_kv_heads;
  p.head_dim     = shape.head_dim;
  p.page_tokens  = shape.page_tokens;
  p.block_tokens = shape.block_tokens;
  p.table_width  = (shape.context + shape.block_tokens - 1) / shape.block_tokens;
  p.num_blocks   = p.table_width * p.num_requests;
  p.kind         = shape.kind;
  p.width        = shape.selected_pages;
  p.max_pages    = shape.selected_pages + 1;
  p.scale        = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  if (p.kind == selection_kind::tokens) {
    p.width = shape.selected_pages * shape.page_tokens + shape.page_tokens - 1;
  }

  std::int32_t const rows_per_request = shape.num_rows / shape.num_requests;
  p.num_rows                          = rows_per_request * shape.num_requests;
  p.sequence_length.assign(p.num_requests, shape.context);
  for (std::int32_t row = 0; row < p.num_rows; ++row) {
    p.row_request.push_back(row / rows_per_request);
    p.row_position.push_back(shape.context - rows_per_request + row % rows_per_request);
  }

  // Never the identity: a kernel that forgot the block table would be right by luck.
  p.block_table.resize(static_cast<std::size_t>(p.num_requests) * p.table_width);
  std::iota(p.block_table.begin(), p.block_table.end(), 0);
  std::mt19937 generator(hash(shape.seed + 17));
  std::shuffle(p.block_table.begin(), p.block_table.end(), generator);

  p.selected.assign(static_cast<std::size_t>(p.num_rows) * p.width, -1);
  for (std::int32_t request = 0; request < p.num_requests; ++request) {
    if (shape.chosen == choice::disjoint) {
      choose_disjoint(shape, p, request, rows_per_request);
    } else {
      choose_scored(shape, p, request, rows_per_request);
    }
  }
  return p;
}

void draw_queries(problem& p, std::uint32_t seed) {
  p.q.resize(static_cast<std::size_t>(p.num_rows) * p.num_heads * p.head_dim);
  fill(p.q, hash(seed + 3));
}

void draw_cache(problem& p, kv_layout layout, std::uint32_t seed) {
  p.k_strides = contiguous_kv_strides(p.block_tokens, p.num_kv_heads, p.head_dim);
  p.k_offset  = 0;
  if (layout == kv_layout::interleaved) {
    p.v_offset = p.k_strides.block;
    p.k_strides.block *= 2;
  } else {
    p.v_offset = p.k_strides.block * p.num_blocks;
  }
  p.v_strides = p.k_strides;
  p.kv_storage.resize(2 * static_cast<std::size_t>(p.num_blocks) * p.block_tokens * p.num_kv_heads *
                      p.head_dim);
  fill(p.kv_storage, hash(seed + 4));
}

problem make_workload(workload_shape const& shape) {
  problem p = make_tables(shape);
  draw_queries(p, shape.seed);
  draw_cache(p, shape.layout, shape.seed);
  return p;
}

overlap measure_overlap(problem const& p) {
  std::vector<std::vector<std::int64_t>> pages(p.num_rows);
  std::vector<std::int64_t> tokens(p.num_rows);
  parallel_for(p.num_rows, [&](std::int64_t row) {
    pages_of_row(p, static_cast<std::int32_t>(row), pages[row], tokens[row]);
  });

  overlap o;
  double total_pages = 0.0;
  for (std::int32_t row = 0; row < p.num_rows; ++row) {
    total_pages += static_cast<double>(pages[row].size());
    o.asked_tokens += static_cast<double>(tokens[row]);
  }
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
