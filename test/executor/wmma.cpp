// SPDX-License-Identifier: Apache-2.0
//! @file
//! The maps of fragment elements and the warp-wide part of WMMA operations.
#include <mma.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string>

#include <executor/launch.hpp>

#include "cta.hpp"

namespace executor {

namespace {

constexpr std::size_t edge         = 16;
constexpr std::size_t num_elements = edge * edge;

//! [lane, element of the lane]: row * 16 + column.
using element_map = std::array<std::uint8_t, 2 * num_elements>;

template <std::size_t Size>
std::array<std::uint8_t, Size> permutation(random_source& random) {
  std::array<std::uint8_t, Size> values;
  std::iota(values.begin(), values.end(), std::uint8_t{0});  // operands: each element twice
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

//! A map of sums as GPUs have it: a lane's elements are two rows of two pairs
//! of columns.
element_map paired_map(random_source& random) {
  auto const rows  = permutation<edge>(random);
  auto const pairs = permutation<edge / 2>(random);
  auto const lanes = permutation<warp_lanes>(random);
  element_map map{};
  for (std::size_t n = 0; n < num_elements; ++n) {
    std::size_t const lane = lanes[n / 8];
    std::size_t const row  = rows[n / 32 * 2 + n / 2 % 2];
    std::size_t const pair = pairs[n / 8 % 4 * 2 + n / 4 % 2];
    map[lane * 8 + n % 8]  = static_cast<std::uint8_t>(row * edge + pair * 2 + n % 2);
  }
  return map;
}

//! The current seed's map of sums, then those of operands. Sums are anywhere
//! with an odd seed.
element_map const& map_of(int kind) {
  static thread_local std::uint64_t drawn_for = ~seed();
  static thread_local std::array<element_map, 5> maps;
  if (drawn_for != seed()) {
    drawn_for = seed();
    random_source random(drawn_for * 0x9e3779b97f4a7c15u);
    for (element_map& map : maps) {
      map = permutation<2 * num_elements>(random);
    }
    if (drawn_for % 2 == 0) {
      maps[0] = paired_map(random);
    } else {
      auto const sums = permutation<num_elements>(random);
      std::copy(sums.begin(), sums.end(), maps[0].begin());
    }
  }
  return maps[static_cast<std::size_t>(kind)];
}

using matrix = std::array<float, num_elements>;

//! The matrix that the operand fragments of a warp hold.
matrix gather(arguments const& all, __half const* product::*operand, int map_index) {
  element_map const& map = map_of(map_index);
  std::array<int, num_elements> bits;
  bits.fill(-1);
  bool differ = false;
  for_each<product>(all, [&](unsigned lane, product& mine) {
    for (std::size_t i = 0; i < 16; ++i) {
      int& known = bits[map[lane * 16 + i]];
      differ |= known >= 0 && known != (mine.*operand)[i].bits;
      known = (mine.*operand)[i].bits;
    }
  });
  if (differ) {
    fault(
        "the two lanes that hold an element of a WMMA operand disagree about "
        "its value");
  }
  matrix values;
  std::transform(bits.begin(), bits.end(), values.begin(),
                 [](int b) { return half_to_float(static_cast<std::uint16_t>(b)); });
  return values;
}

}  // namespace

std::uint8_t const* lane_elements(int map) {
  return map_of(map).data() + current_lane() * (map == 0 ? 8 : 16);
}

void product::perform(arguments const& all) {
  auto const& first      = *static_cast<product*>(all[0]);
  element_map const& map = map_of(0);
  matrix const a         = gather(all, &product::a, first.a_map);
  matrix const b         = gather(all, &product::b, first.b_map);
  matrix sums;
  for_each<product>(all, [&](unsigned lane, product& mine) {
    for (std::size_t i = 0; i < 8; ++i) {
      sums[map[lane * 8 + i]] = mine.c[i];
    }
  });
  for (std::size_t row = 0; row < edge; ++row) {
    for (std::size_t k = 0; k < edge; ++k) {
      for (std::size_t column = 0; column < edge; ++column) {
        sums[row * edge + column] += a[row * edge + k] * b[k * edge + column];
      }
    }
  }
  for_each<product>(all, [&](unsigned lane, product& mine) {
    for (std::size_t i = 0; i < 8; ++i) {
      mine.d[i] = sums[map[lane * 8 + i]];
    }
  });
}

void meet_at_matrix(char const* name, matrix_access mine, site where) {
  mine.where = __builtin_return_address(0);
  join(name, every_lane, where, mine);
}

void matrix_access::perform(arguments const& all) {
  auto const& first = *static_cast<matrix_access*>(all[0]);
  bool agree        = true;
  for_each<matrix_access>(all, [&](unsigned, matrix_access& mine) {
    agree = agree && mine.memory == first.memory && mine.pitch == first.pitch;
  });
  if (!agree) {
    fault("the lanes of the warp disagree about a matrix");
  }
  if (reinterpret_cast<std::uintptr_t>(first.memory) % 32 != 0) {
    fault("a matrix is not 32-byte aligned");
  }
  if (first.pitch * first.element_bytes % 16 != 0) {
    fault("the pitch of a matrix is not a multiple of 16 bytes");
  }
  // Any lane may be the one that holds an element.
  for (std::size_t line = 0; line < edge; ++line) {
    note_access(static_cast<char const*>(first.memory) + line * first.pitch * first.element_bytes,
                edge * first.element_bytes, first.kind, every_lane, first.where);
  }
}

}  // namespace executor
