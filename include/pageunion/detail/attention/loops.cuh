// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The list of the loops over pages. Knows their names alone.
#pragma once

#include <pageunion/detail/attention/sm70/wmma_loop.cuh>
#include <pageunion/tuning.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! The loop that a shape's tuning names.
template <class Shape, inner_loop = Shape::tuning::attention.loop>
struct loop_of;

template <class Shape>
struct loop_of<Shape, inner_loop::wmma> {
  using type = wmma_loop<Shape>;
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
