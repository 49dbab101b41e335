// SPDX-License-Identifier: Apache-2.0
//! @file
//! The maps of fragment elements and the warp-wide part of WMMA operations.
#include <mma.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <executor/launch.hpp>
#include <executor/simt.hpp>

#include "races.hpp"

namespace executor {

namespace {

constexpr std::size_t edge         = 16;
constexpr std::size_t num_elements = edge * edge;

//! Who holds each element, row * 16 + column, of a matrix: lane * (elements of a lane) + element of the
//! lane. Operands have two holders of each: [256 or 2 * 256].
using element_map = std::vector<std::uint16_t>;

element_map permutation(std::size_t size, std::mt19937& random) {
  element_map values(size);
  std::iota(values.begin(), values.end(), std::uint16_t{0});
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

//! A map of sums as GPUs have it: a lane's elements are two rows of two pairs of columns.
element_map paired_map(std::mt19937& random) {
  element_map const rows  = permutation(edge, random);
  element_map const pairs = permutation(edge / 2, random);
  element_map const lanes = permutation(warp_lanes, random);
  element_map map(num_elements);
  for (std::size_t n = 0; n < num_elements; ++n) {
    std::size_t const row              = rows[n / 32 * 2 + n / 2 % 2];
    std::size_t const pair             = pairs[n / 8 % 4 * 2 + n / 4 % 2];
    map[row * edge + pair * 2 + n % 2] = static_cast<std::uint16_t>(lanes[n / 8] * 8u + n % 8);
  }
  return map;
}

//! The current seed's map of sums, then those of operands. Sums are anywhere with an odd seed.
element_map const& map_of(int kind) {
  static std::uint64_t drawn_for = ~seed();
  static element_map maps[5];
  if (drawn_for != seed()) {
    drawn_for = seed();
    std::mt19937 random(static_cast<std::mt19937::result_type>(drawn_for));
    maps[0] = drawn_for % 2 == 0 ? paired_map(random) : permutation(num_elements, random);
    std::generate(maps + 1, std::end(maps), [&] { return permutation(2 * num_elements, random); });
  }
  return maps[kind];
}

using matrix = std::array<float, num_elements>;

//! The matrix that the operand fragments of a warp hold.
matrix gather(arguments const& all, __half const* product::*operand, int map_index) {
  element_map const& map = map_of(map_index);
  auto const held        = [&](std::uint16_t place) {
    return __half_as_ushort((static_cast<product*>(all[place / 16u])->*operand)[place % 16u]);
  };
  matrix values;
  for (std::size_t n = 0; n < num_elements; ++n) {
    unsigned short const bits = held(map[n]);
    if (held(map[n + num_elements]) != bits) {
      fault("the two lanes that hold an element of a WMMA operand disagree about its value");
    }
    values[n] = __half2float(__half_raw{bits});
  }
  return values;
}

//! A lane's part of a load or store.
template <class T>
struct matrix_access {
  access whole;  //!< any lane may be the one that holds an element
  T* elements;
  T* memory;
  unsigned pitch;
  bool is_row_major;
  int map;

  static void perform(arguments const& all) {
    auto const& first = *static_cast<matrix_access*>(all[0]);
    for_each<matrix_access>(all, [&](unsigned, matrix_access& mine) {
      if (mine.memory != first.memory || mine.pitch != first.pitch) {
        fault("the lanes of the warp disagree about a matrix");
      }
    });
    if (reinterpret_cast<std::uintptr_t>(first.memory) % 32 != 0) {
      fault("a matrix is not 32-byte aligned");
    }
    if (first.pitch * sizeof(T) % 16 != 0) {
      fault("the pitch of a matrix is not a multiple of 16 bytes");
    }
    for (std::size_t line = 0; line < edge; ++line) {
      races.check(first.memory + line * first.pitch, edge * sizeof(T), first.whole);
    }
    element_map const& map = map_of(first.map);
    std::size_t const held = map.size() / warp_lanes;
    for (std::size_t n = 0; n < map.size(); ++n) {
      std::size_t const line = first.is_row_major ? n % num_elements / edge : n % edge;
      std::size_t const at   = first.is_row_major ? n % edge : n % num_elements / edge;
      T& place               = first.memory[line * first.pitch + at];
      T& element = static_cast<matrix_access*>(all[map[n] / held])->elements[map[n] % held];
      if (first.whole.kind == access_kind::read) {
        element = place;
      } else {
        place = element;
      }
    }
  }
};

}  // namespace

template <class T>
void load_matrix(T* elements, T const* memory, unsigned pitch, bool is_row_major, int map,
                 site where) {
  access const whole{access_kind::read, every_lane, __builtin_return_address(0)};
  matrix_access<T> mine{whole, elements, const_cast<T*>(memory), pitch, is_row_major, map};
  join("load_matrix_sync", every_lane, where, mine);
}
template void load_matrix(__half*, __half const*, unsigned, bool, int, site);
template void load_matrix(float*, float const*, unsigned, bool, int, site);

void store_matrix(float const* elements, float* memory, unsigned pitch, bool is_row_major,
                  site where) {
  access const whole{access_kind::write, every_lane, __builtin_return_address(0)};
  matrix_access<float> mine{whole, const_cast<float*>(elements), memory, pitch, is_row_major, 0};
  join("store_matrix_sync", every_lane, where, mine);
}

void product::perform(arguments const& all) {
  auto const& first      = *static_cast<product*>(all[0]);
  element_map const& map = map_of(0);
  matrix const a         = gather(all, &product::a, first.a_map);
  matrix const b         = gather(all, &product::b, first.b_map);
  for (std::size_t row = 0; row < edge; ++row) {
    float sums[edge] = {};
    for (std::size_t k = 0; k < edge; ++k) {
      for (std::size_t column = 0; column < edge; ++column) {
        sums[column] += a[row * edge + k] * b[k * edge + column];
      }
    }
    for (std::size_t column = 0; column < edge; ++column) {
      std::uint16_t const place = map[row * edge + column];
      auto const& mine          = *static_cast<product*>(all[place / 8u]);
      mine.d[place % 8u]        = mine.c[place % 8u] + sums[column];
    }
  }
}

}  // namespace executor
