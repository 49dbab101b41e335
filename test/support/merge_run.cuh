// SPDX-License-Identifier: Apache-2.0
//! @file
//! Partial results on the device and one call of merge_partials() on them, with what it must give in
//! double precision.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <pageunion/merge_partials.cuh>
#include <pageunion/operands.hpp>
#include <pageunion/status.hpp>

#include "captured_graph.cuh"
#include "device_array.cuh"
#include "device_outputs.cuh"
#include "double_bits.hpp"
#include "random.hpp"
#include "tolerance.hpp"

namespace pageunion::test {

//! What to merge.
struct merge_spec {
  std::uint64_t seed = 1;
  int num_partials   = 3;
  int num_rows       = 5;
  int num_heads      = 6;
  log_base base      = log_base::natural;  //!< of the partials
  double empty       = 0.0;                //!< share of (partial, row, head) without a token
  float spread       = 3.0f;               //!< deviation of the partials' lse
  float center       = 0.0f;               //!< mean of the partials' lse
  //! Axes from inside out, with gaps: rows before partials in out, partials innermost in lse.
  bool is_scattered     = false;
  element_type out_type = element_type::f32;
  log_base lse_base     = log_base::natural;  //!< of the result
};

//! The partials of a specification, random numbers, and their views. Empty partials, and all gaps, hold
//! NaN. HeadDim is the elements of a head.
template <int HeadDim>
struct host_partials {
  explicit host_partials(merge_spec const& s) : spec(s) {
    std::int64_t const gap  = s.is_scattered ? 4 : 0;
    view.base               = s.base;
    view.out_head_stride    = HeadDim + gap;
    std::int64_t const row  = s.num_heads * view.out_head_stride + gap;
    view.out_row_stride     = s.is_scattered ? s.num_partials * row : row;
    view.out_partial_stride = s.is_scattered ? row : s.num_rows * row;
    view.lse_partial_stride = s.is_scattered ? 1 : std::int64_t{s.num_rows} * s.num_heads;
    view.lse_row_stride     = s.is_scattered ? s.num_partials + 1 : s.num_heads;
    view.lse_head_stride    = s.is_scattered ? s.num_rows * view.lse_row_stride : 1;
    out.assign(s.num_partials * s.num_rows * row, nan);
    lse.assign((s.num_partials + 1) * s.num_rows * s.num_heads, nan);
    fill();
  }

  float& lse_at(int partial, int row, int head) {
    return lse[partial * view.lse_partial_stride + row * view.lse_row_stride +
               head * view.lse_head_stride];
  }
  float& out_at(int partial, int row, int head, int dim) {
    return out[partial * view.out_partial_stride + row * view.out_row_stride +
               head * view.out_head_stride + dim];
  }

  merge_spec spec;
  partial_view view;  //!< strides and base; no addresses
  std::vector<float> out;
  std::vector<float> lse;

 private:
  static constexpr float nan = std::numeric_limits<float>::quiet_NaN();

  void fill() {
    random_source source(spec.seed);
    normal_source normal(spec.seed + 1);
    for (int i = 0; i < spec.num_partials; ++i) {
      for (int row = 0; row < spec.num_rows; ++row) {
        for (int head = 0; head < spec.num_heads; ++head) {
          bool const is_empty  = source.is_chosen(spec.empty);
          lse_at(i, row, head) = is_empty ? -std::numeric_limits<float>::infinity()
                                          : spec.center + spec.spread * normal.next();
          for (int dim = 0; dim < HeadDim && !is_empty; ++dim) {
            out_at(i, row, head, dim) = normal.next();
          }
        }
      }
    }
  }
};

//! One call's device memory. Policy gives head_dim.
template <class Policy>
class merge_run {
 public:
  static constexpr int head_dim = Policy::head_dim;

  //! Heads have gaps in the output, and come before rows in lse.
  explicit merge_run(host_partials<head_dim> const& partials)
      : host_(partials),
        partial_out_(partials.out),
        partial_lse_(partials.lse),
        outputs_(spec().num_rows, spec().num_heads, head_dim,
                 {nullptr, spec().out_type, spec().num_heads * out_stride, out_stride},
                 {nullptr, spec().lse_base, 1, spec().num_rows}) {}

  device_outputs const& outputs() const { return outputs_; }
  partial_view view() const {
    partial_view view = host_.view;
    view.out          = partial_out_.template as<float>();
    view.lse          = partial_lse_.template as<float>();
    return view;
  }

  //! Replaces the partials by others of the same shapes.
  void upload(host_partials<head_dim> const& partials) {
    host_ = partials;
    partial_out_.upload(partials.out);
    partial_lse_.upload(partials.lse);
  }

  status enqueue(cudaStream_t stream) const {
    return merge_partials<Policy::head_dim>(view(), spec().num_partials, spec().num_rows,
                                            spec().num_heads, outputs_.view_of_out(),
                                            outputs_.view_of_lse(), stream);
  }
  status run() {
    poison();
    status const enqueued = enqueue(stream_.get());
    stream_.synchronize();
    return enqueued;
  }
  void poison() { outputs_.poison(); }

  //! What is wrong with the result, or with memory that was not to change; empty if nothing.
  std::string faults() {
    std::vector<double> expected_out, expected_lse;
    std::vector<output_bound> bounds;
    for (int row = 0; row < spec().num_rows; ++row) {
      for (int head = 0; head < spec().num_heads; ++head) {
        merge(row, head, expected_out, bounds, expected_lse);
      }
    }
    comparison const o = compare_outputs(outputs_.out(), expected_out, bounds, head_dim);
    comparison const l = compare_lse(outputs_.lse(), expected_lse, spec().lse_base);
    std::string found  = outputs_.damage();
    found += o.is_within_bounds() ? "" : "out: " + o.failure + "; ";
    found += l.is_within_bounds() ? "" : "lse: " + l.failure + "; ";
    found += partial_out_.is_guarded() && partial_lse_.is_guarded() ? "" : "guard bytes; ";
    found += are_same_bits(partial_out_, host_.out) && are_same_bits(partial_lse_, host_.lse)
                 ? ""
                 : "the partials; ";
    return found;
  }
  std::string run_faults() {
    status const ran = run();
    return ran == status::ok ? faults() : to_string(ran);
  }

 private:
  static constexpr std::int64_t out_stride = head_dim + 8;  // between two heads of the result

  merge_spec const& spec() const { return host_.spec; }

  //! Appends a (row, head)'s output, the bound of its error and its natural lse.
  //! The bound: weights are off by a few float roundings, relative; sums of weighted values by as much.
  void merge(int row, int head, std::vector<double>& out, std::vector<output_bound>& bounds,
             std::vector<double>& lse) {
    double const to_natural = spec().base == log_base::two ? std::log(2.0) : 1.0;
    double maximum          = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < spec().num_partials; ++i) {
      maximum = std::fmax(maximum, host_.lse_at(i, row, head) * to_natural);
    }
    double sum = 0.0, magnitude = 0.0;
    bool is_empty = true;
    std::vector<double> sums(head_dim);
    for (int i = 0; i < spec().num_partials; ++i) {
      double const partial = host_.lse_at(i, row, head) * to_natural;
      if (is_minus_infinity(partial)) {
        continue;
      }
      is_empty            = false;
      double const weight = std::exp(partial - maximum);
      sum += weight;
      for (int dim = 0; dim < head_dim; ++dim) {
        double const value = host_.out_at(i, row, head, dim);
        sums[dim] += is_finite(value) ? weight * value : value;
        magnitude = is_finite(value) ? std::fmax(magnitude, std::abs(value)) : magnitude;
      }
    }
    for (double const value : sums) {
      out.push_back(is_empty ? 0.0 : value / sum);
    }
    lse.push_back(maximum + std::log(sum));
    output_bound bound;
    bound.element = magnitude * (0x1p-20 + (spec().out_type == element_type::f16 ? 0x1p-11 : 0.0));
    bound.length  = bound.element * std::sqrt(static_cast<double>(head_dim));
    bounds.push_back(bound);
  }

  static bool are_same_bits(device_array const& array, std::vector<float> const& expected) {
    std::vector<float> const stored = array.template download<float>();
    return stored.empty() ||
           std::memcmp(stored.data(), expected.data(), stored.size() * sizeof(float)) == 0;
  }

  host_partials<head_dim> host_;
  device_array partial_out_;
  device_array partial_lse_;
  device_outputs outputs_;
  test_stream stream_;
};

}  // namespace pageunion::test
