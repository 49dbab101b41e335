// SPDX-License-Identifier: Apache-2.0
//! @file
//! WMMA operations, each once for its warp.
#include <mma.h>

#include <array>
#include <cstdint>
#include <string>

#include <executor/launch.hpp>

#include "cta.hpp"

namespace executor {

namespace {

constexpr int edge         = 16;
constexpr int num_elements = edge * edge;

//! map[lane * elements of a lane + i] = row * 16 + column of the lane's x[i].
using element_map  = std::array<std::uint8_t, 2 * num_elements>;
using element_maps = std::array<element_map, 5>;

int lane_elements(fragment_kind kind) { return kind == fragment_kind::sum ? 8 : 16; }

element_maps random_maps(std::uint64_t seed) {
  element_maps maps{};
  for (std::size_t kind = 0; kind < maps.size(); ++kind) {
    random_source random(mix(seed, kind, 0xf7a6));
    int const slots = warp_lanes * lane_elements(static_cast<fragment_kind>(kind));
    for (int slot = 0; slot < slots; ++slot) {
      // Each value is put at a place drawn from those up to it.
      std::uint32_t const other           = random.below(static_cast<std::uint32_t>(slot) + 1);
      auto& map                           = maps[kind];
      map[static_cast<std::size_t>(slot)] = map[other];
      map[other]                          = static_cast<std::uint8_t>(slot);
    }
  }
  return maps;
}

//! The map of the current seed.
element_map const& map_of(fragment_kind kind) {
  static thread_local std::uint64_t drawn_for = ~seed();
  static thread_local element_maps maps;
  if (drawn_for != seed()) {
    drawn_for = seed();
    maps      = random_maps(drawn_for);
  }
  return maps[static_cast<std::size_t>(kind)];
}

using matrix = std::array<float, num_elements>;

//! The matrix that a warp's operand fragments hold.
void gather_operand(matrix& to, __half const* const* lanes, fragment_kind kind) {
  constexpr int elements = 16;
  std::array<std::uint16_t, num_elements> bits{};
  std::array<bool, num_elements> is_known{};
  element_map const& map = map_of(kind);
  bool differ            = false;
  for (int l = 0; l < warp_lanes; ++l) {
    for (int i = 0; i < elements; ++i) {
      std::size_t const at         = map[static_cast<std::size_t>(l * elements + i)];
      std::uint16_t const the_bits = lanes[l][i].bits;
      differ |= is_known[at] && bits[at] != the_bits;
      bits[at]     = the_bits;
      is_known[at] = true;
    }
  }
  if (differ) {
    fault("the two lanes that hold an element of a WMMA operand disagree about its value");
  }
  for (std::size_t i = 0; i < num_elements; ++i) {
    to[i] = half_to_float(bits[i]);
  }
}

struct multiply_call {
  float* d;
  __half const* a;
  __half const* b;
  float const* c;
  fragment_kind a_kind;
  fragment_kind b_kind;

  static void perform(unsigned, void* const* lanes) {
    std::array<__half const*, warp_lanes> a_lanes;
    std::array<__half const*, warp_lanes> b_lanes;
    matrix a, b, sums;
    multiply_call const& first = *static_cast<multiply_call const*>(lanes[0]);
    element_map const& map     = map_of(fragment_kind::sum);
    for (std::size_t l = 0; l < warp_lanes; ++l) {
      auto const& mine = *static_cast<multiply_call const*>(lanes[l]);
      a_lanes[l]       = mine.a;
      b_lanes[l]       = mine.b;
      for (std::size_t i = 0; i < 8; ++i) {
        sums[map[l * 8 + i]] = mine.c[i];
      }
    }
    gather_operand(a, a_lanes.data(), first.a_kind);
    gather_operand(b, b_lanes.data(), first.b_kind);
    for (std::size_t row = 0; row < edge; ++row) {
      for (std::size_t k = 0; k < edge; ++k) {
        float const factor = a[row * edge + k];
        for (std::size_t column = 0; column < edge; ++column) {
          sums[row * edge + column] += factor * b[k * edge + column];
        }
      }
    }
    for (std::size_t l = 0; l < warp_lanes; ++l) {
      auto const& mine = *static_cast<multiply_call const*>(lanes[l]);
      for (std::size_t i = 0; i < 8; ++i) {
        mine.d[i] = sums[map[l * 8 + i]];
      }
    }
  }
};

//! Checks what CUDA asks of the operands of a move.
void check_move(char const* name, void* const* lanes, std::size_t element_bytes) {
  auto const& first = *static_cast<matrix_move const*>(lanes[0]);
  for (int l = 1; l < warp_lanes; ++l) {
    auto const& mine = *static_cast<matrix_move const*>(lanes[l]);
    if (mine.memory != first.memory || mine.pitch != first.pitch ||
        mine.is_row_major != first.is_row_major) {
      fault(std::string(name) + ": the lanes of the warp disagree about the matrix");
    }
  }
  if (reinterpret_cast<std::uintptr_t>(first.memory) % 32 != 0) {
    fault(std::string(name) + ": the matrix is not 32-byte aligned");
  }
  if (first.pitch * element_bytes % 16 != 0) {
    fault(std::string(name) + ": the pitch is not a multiple of 16 bytes");
  }
}

//! Tells the race detector: any lane may be the one that holds an element.
void note_matrix(matrix_move const& move, std::size_t element_bytes, access kind) {
  for (std::size_t line = 0; line < edge; ++line) {
    note_access(static_cast<char const*>(move.memory) + line * move.pitch * element_bytes,
                edge * element_bytes, kind, every_lane, move.where);
  }
}

//! Copies between the matrix and every lane's elements.
template <class T, bool IsLoad>
void move_elements(void* const* lanes) {
  auto const& first               = *static_cast<matrix_move const*>(lanes[0]);
  element_map const& map          = map_of(first.kind);
  auto* const memory              = static_cast<T*>(first.memory);
  auto const elements             = static_cast<std::size_t>(lane_elements(first.kind));
  std::size_t const row_stride    = first.is_row_major ? first.pitch : 1;
  std::size_t const column_stride = first.is_row_major ? 1 : first.pitch;
  for (std::size_t l = 0; l < warp_lanes; ++l) {
    auto* const mine = static_cast<T*>(static_cast<matrix_move const*>(lanes[l])->elements);
    for (std::size_t i = 0; i < elements; ++i) {
      std::size_t const element = map[l * elements + i];
      T& place = memory[element / edge * row_stride + element % edge * column_stride];
      if (IsLoad) {
        mine[i] = place;
      } else {
        place = mine[i];
      }
    }
  }
}

struct load_call : matrix_move {
  static void perform(unsigned, void* const* lanes) {
    auto const& first       = *static_cast<matrix_move const*>(lanes[0]);
    bool const is_sum       = first.kind == fragment_kind::sum;
    std::size_t const bytes = is_sum ? sizeof(float) : sizeof(__half);
    check_move("load_matrix_sync", lanes, bytes);
    note_matrix(first, bytes, access::read);
    is_sum ? move_elements<float, true>(lanes) : move_elements<__half, true>(lanes);
  }
};

struct store_call : matrix_move {
  static void perform(unsigned, void* const* lanes) {
    check_move("store_matrix_sync", lanes, sizeof(float));
    note_matrix(*static_cast<matrix_move const*>(lanes[0]), sizeof(float), access::write);
    move_elements<float, false>(lanes);
  }
};

}  // namespace

void load_matrix(matrix_move& move, site where) {
  move.where = __builtin_return_address(0);
  converge({"load_matrix_sync", every_lane, where, &load_call::perform}, &move);
}

void store_matrix(matrix_move& move, site where) {
  move.where = __builtin_return_address(0);
  converge({"store_matrix_sync", every_lane, where, &store_call::perform}, &move);
}

void multiply(float* d, __half const* a, fragment_kind a_kind, __half const* b,
              fragment_kind b_kind, float const* c, site where) {
  multiply_call mine{d, a, b, c, a_kind, b_kind};
  converge("mma_sync", every_lane, where, mine);
}

}  // namespace executor
