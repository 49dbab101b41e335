// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 9. The host reference: attention in double precision, by brute force from the rules alone. Shares
//! no code with planner or kernels and needs no CUDA device. Slow on purpose: fast code is compared with it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

#include <pageunion/operands.hpp>
#include <pageunion/selection.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! What the reference computed, rows in the order in which they were asked for.
struct reference_result {
  std::vector<double> out;  //!< [rows, num_heads, head_dim]
  std::vector<double> lse;  //!< [rows, num_heads], natural logarithm
};

//! S(row): the tokens that a row attends to, ascending, each once.
//!
//! An entry of the row's table counts if it lies inside the row's count and the token t is visible
//! (0 <= t <= position and t < sequence_length), its logical cache block is inside the block table's
//! width, and its physical cache block is in [0, num_blocks). A page stands for its page_tokens
//! tokens, each checked by itself; a page table's row also has its last, partly visible page.
//! `max_pages` of a token table bounds a workspace and is not read here.
//!
//! @param page_tokens tokens of a page; read for a page table only
//! @param row         in [0, rows.num_rows)
inline std::vector<std::int32_t> reference_tokens(batch const& rows, selection const& selected,
                                                  kv_cache const& cache, int page_tokens,
                                                  std::int32_t row) {
  block_table const& blocks  = cache.blocks;
  std::int32_t const request = rows.row_request[row];
  if (request < 0 || request >= blocks.num_requests) {
    return {};
  }
  std::int64_t const position = rows.row_position[row];
  std::int64_t const length   = rows.sequence_length[request];

  // 64-bit: a page number times page_tokens can exceed int32.
  std::vector<std::int64_t> listed;
  auto const list_page = [&](std::int64_t page) {
    for (int i = 0; i < page_tokens; ++i) {
      listed.push_back(page * page_tokens + i);
    }
  };
  if (selected.kind == selection_kind::tokens) {
    token_table const& table = selected.tokens;
    std::int64_t count       = table.width;
    if (table.counts != nullptr) {
      count = std::min<std::int64_t>(count, table.counts[row * table.count_stride]);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      listed.push_back(table.tokens[row * table.row_stride + i]);
    }
  } else {
    page_table const& table = selected.pages;
    for (std::int64_t i = 0; i < table.width; ++i) {
      list_page(table.pages[row * table.row_stride + i]);
    }
    std::int64_t const num_visible = position < length ? position + 1 : length;
    if (num_visible > 0 && num_visible % page_tokens != 0) {
      list_page(num_visible / page_tokens);
    }
  }

  std::vector<std::int32_t> tokens;
  for (std::int64_t const token : listed) {
    bool const is_visible = token >= 0 && token <= position && token < length;
    if (!is_visible || token / cache.block_tokens >= blocks.width) {
      continue;
    }
    std::int32_t const block =
        blocks.table[request * blocks.row_stride + token / cache.block_tokens];
    if (block >= 0 && block < cache.num_blocks) {
      tokens.push_back(static_cast<std::int32_t>(token));
    }
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

PAGEUNION_NAMESPACE_END
PAGEUNION_DETAIL_NAMESPACE_BEGIN

//! Exact value of a half, by its bits: sign, 5 bits of exponent with bias 15, 10 of fraction.
inline double reference_value(__half half) noexcept {
  std::uint16_t bits = 0;
  std::memcpy(&bits, &half, sizeof(bits));
  std::uint64_t const sign     = static_cast<std::uint64_t>(bits >> 15) << 63;
  std::uint64_t const exponent = bits >> 10 & 0x1f;
  std::uint64_t const fraction = bits & 0x3ff;

  if (exponent == 0) {
    double const magnitude = static_cast<double>(fraction) * 0x1p-24;
    return sign != 0 ? -magnitude : magnitude;
  }
  std::uint64_t const wide_exponent = exponent == 31 ? 2047 : exponent - 15 + 1023;
  std::uint64_t const wide          = sign | wide_exponent << 52 | fraction << 42;
  double value                      = 0.0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

//! Widens head_dim contiguous halves.
inline void reference_widen(__half const* from, std::int32_t head_dim, double* to) noexcept {
  for (std::int32_t d = 0; d < head_dim; ++d) {
    to[d] = reference_value(from[d]);
  }
}

//! a . b, in eight interleaved sums: their additions do not wait for one another.
inline double reference_dot(double const* a, double const* b, std::int32_t head_dim) noexcept {
  double sums[8]          = {};
  std::int32_t const even = head_dim / 8 * 8;
  for (std::int32_t d = 0; d < even; d += 8) {
    for (int i = 0; i < 8; ++i) {
      sums[i] += a[d + i] * b[d + i];
    }
  }
  for (std::int32_t d = even; d < head_dim; ++d) {
    sums[d - even] += a[d] * b[d];
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

//! The attention of single rows, with the scratch memory of one thread.
class reference_rows_of_thread {
 public:
  reference_rows_of_thread(batch const& rows, selection const& selected,
                           attention_operands const& operands, int page_tokens)
      : rows_(rows),
        selected_(selected),
        operands_(operands),
        page_tokens_(page_tokens),
        heads_per_kv_(operands.q.num_heads / operands.cache.num_kv_heads),
        wide_(static_cast<std::size_t>(operands.q.head_dim)),
        queries_(static_cast<std::size_t>(heads_per_kv_) * wide_.size()) {}

  //! @param out [num_heads, head_dim]
  //! @param lse [num_heads]
  void attend(std::int32_t row, double* out, double* lse) {
    query_view const& q = operands_.q;
    std::fill(out, out + static_cast<std::ptrdiff_t>(q.num_heads) * q.head_dim, 0.0);
    std::fill(lse, lse + q.num_heads, reference_value(__half_raw{0xfc00}));  // -inf
    tokens_ = reference_tokens(rows_, selected_, operands_.cache, page_tokens_, row);
    if (tokens_.empty()) {
      return;
    }
    weights_.resize(static_cast<std::size_t>(heads_per_kv_) * tokens_.size());
    for (std::int32_t kv_head = 0; kv_head < operands_.cache.num_kv_heads; ++kv_head) {
      std::int32_t const first_head = kv_head * heads_per_kv_;
      score(row, kv_head);
      for (std::int32_t h = 0; h < heads_per_kv_; ++h) {
        lse[first_head + h] = normalise(h);
      }
      accumulate(row, kv_head, out + static_cast<std::ptrdiff_t>(first_head) * q.head_dim);
    }
  }

 private:
  //! Widens K or V of a token that the row attends to, so that its cache block is mapped.
  void widen(void const* data, kv_strides const& strides, std::int32_t row, std::int32_t token,
             std::int32_t kv_head) noexcept {
    kv_cache const& cache       = operands_.cache;
    std::int64_t const request  = rows_.row_request[row];
    std::int64_t const in_block = token % cache.block_tokens;
    std::int64_t const block =
        cache.blocks.table[request * cache.blocks.row_stride + token / cache.block_tokens];
    reference_widen(static_cast<__half const*>(data) + block * strides.block +
                        in_block * strides.token + kv_head * strides.head,
                    operands_.q.head_dim, wide_.data());
  }

  //! weights_[h][t] = scale * q[h] . k[t]
  void score(std::int32_t row, std::int32_t kv_head) {
    query_view const& q = operands_.q;
    for (std::int32_t h = 0; h < heads_per_kv_; ++h) {
      std::int64_t const head = kv_head * heads_per_kv_ + h;
      reference_widen(q.data + row * q.row_stride + head * q.head_stride, q.head_dim, query(h));
    }
    kv_cache const& cache = operands_.cache;
    for (std::size_t t = 0; t < tokens_.size(); ++t) {
      widen(cache.k, cache.k_strides, row, tokens_[t], kv_head);
      for (std::int32_t h = 0; h < heads_per_kv_; ++h) {
        weights(h)[t] = static_cast<double>(operands_.scale) *
                        reference_dot(query(h), wide_.data(), q.head_dim);
      }
    }
  }

  //! Turns the scores of a head into softmax weights; returns their lse. A NaN or +inf score, or
  //! nothing but -inf, makes weights and lse NaN: inf - inf is NaN.
  double normalise(std::int32_t h) noexcept {
    double* const begin = weights(h);
    double* const end   = begin + tokens_.size();
    double maximum      = *begin;
    for (double* w = begin; w != end; ++w) {
      maximum = *w > maximum ? *w : maximum;
    }
    double sum = 0.0;
    for (double* w = begin; w != end; ++w) {
      *w = std::exp(*w - maximum);
      sum += *w;
    }
    for (double* w = begin; w != end; ++w) {
      *w /= sum;
    }
    return maximum + std::log(sum);
  }

  //! out[h] = sum over t of weights_[h][t] * v[t]
  void accumulate(std::int32_t row, std::int32_t kv_head, double* out) {
    kv_cache const& cache       = operands_.cache;
    std::int32_t const head_dim = operands_.q.head_dim;
    for (std::size_t t = 0; t < tokens_.size(); ++t) {
      widen(cache.v, cache.v_strides, row, tokens_[t], kv_head);
      for (std::int32_t h = 0; h < heads_per_kv_; ++h) {
        double const weight = weights(h)[t];
        double* const head  = out + static_cast<std::ptrdiff_t>(h) * head_dim;
        for (std::int32_t d = 0; d < head_dim; ++d) {
          head[d] += weight * wide_[static_cast<std::size_t>(d)];
        }
      }
    }
  }

  double* query(std::int32_t h) noexcept {
    return queries_.data() + static_cast<std::size_t>(h) * wide_.size();
  }
  double* weights(std::int32_t h) noexcept {
    return weights_.data() + static_cast<std::size_t>(h) * tokens_.size();
  }

  batch const& rows_;
  selection const& selected_;
  attention_operands const& operands_;
  int page_tokens_;
  std::int32_t heads_per_kv_;
  std::vector<double> wide_;     //!< [head_dim], K or V of one token
  std::vector<double> queries_;  //!< [heads_per_kv, head_dim]
  std::vector<double> weights_;  //!< [heads_per_kv, tokens], scores and then weights
  std::vector<std::int32_t> tokens_;
};

PAGEUNION_DETAIL_NAMESPACE_END
PAGEUNION_NAMESPACE_BEGIN

//! reference_attention() of some rows of a batch only; result row i is row sampled[i].
//! @param sampled rows in [0, rows.num_rows), in any order, repeats allowed
inline void reference_rows(batch const& rows, selection const& selected,
                           attention_operands const& operands, int page_tokens,
                           std::vector<std::int32_t> const& sampled, reference_result& result,
                           int num_threads = 0) {
  std::size_t const num_heads   = static_cast<std::size_t>(operands.q.num_heads);
  std::size_t const row_outputs = num_heads * static_cast<std::size_t>(operands.q.head_dim);
  result.out.resize(sampled.size() * row_outputs);
  result.lse.resize(sampled.size() * num_heads);

  std::atomic<std::size_t> next{0};
  auto const work = [&] {
    detail::reference_rows_of_thread one(rows, selected, operands, page_tokens);
    for (std::size_t i = next++; i < sampled.size(); i = next++) {
      one.attend(sampled[i], result.out.data() + i * row_outputs,
                 result.lse.data() + i * num_heads);
    }
  };
  std::size_t const available = (std::max)(std::thread::hardware_concurrency(), 1u);
  std::size_t const wanted    = num_threads > 0 ? static_cast<std::size_t>(num_threads) : available;
  std::vector<std::future<void>> others;
  try {
    while (others.size() + 1 < (std::min)(wanted, sampled.size())) {
      others.push_back(std::async(std::launch::async, work));
    }
  } catch (...) {
    // No more threads are to be had: those that there are do all rows.
  }
  // Whatever throws, here or in a thread: the futures wait for their threads before the call ends.
  work();
  for (std::future<void>& other : others) {
    other.get();
  }
}

//! Attention of every row of a batch, in double precision on the host.
//!
//! For query row r with S(r) = reference_tokens(r), and KV head g = h / (num_heads / num_kv_heads):
//!   out[r, h] = sum over t in S(r) of softmax(scale * q[r, h] . k[t, g]) * v[t, g]
//!   lse[r, h] = ln(sum over t in S(r) of exp(scale * q[r, h] . k[t, g]))
//! A row with no token gets out = 0 and lse = -inf. K and V of other tokens are not read; NaN and
//! infinity in those of S(r) act as in IEEE arithmetic.
//!
//! Shapes: those of the views, which point at HOST memory here and hold what check_* accept.
//! `operands.out` and `operands.lse` are not used.
//! Determinism: the same bits for any number of threads and any order of the selection's columns.
//! Allocates and starts threads (link with Threads::Threads). Throws std::bad_alloc when memory ends.
//!
//! @param page_tokens tokens of a page of the selection
//! @param num_threads threads to use; 0 = one per hardware thread
inline void reference_attention(batch const& rows, selection const& selected,
                                attention_operands const& operands, int page_tokens,
                                reference_result& result, int num_threads = 0) {
  std::vector<std::int32_t> every_row(static_cast<std::size_t>(rows.num_rows));
  std::iota(every_row.begin(), every_row.end(), 0);
  reference_rows(rows, selected, operands, page_tokens, every_row, result, num_threads);
}

PAGEUNION_NAMESPACE_END
