// SPDX-License-Identifier: Apache-2.0
//! @file
//! Runs the planner on a problem and says where the plan differs from the host's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <pageunion/plan.hpp>
#include <pageunion/planner.cuh>
#include <pageunion/rules.hpp>
#include <pageunion/status.hpp>

#include "device_array.cuh"
#include "device_plan.cuh"
#include "device_problem.cuh"
#include "host_plan.hpp"
#include "planner_problem.hpp"
#include "report_difference.hpp"

namespace pageunion::test {

//! Sizes so small that small problems need several windows of pages and several lists of each.
template <class Shape>
struct PAGEUNION_HIDDEN tiny_planner_sizes : detail::planner_sizes<Shape> {
  static constexpr int kept_quads    = 1;
  static constexpr int storage_bytes = Shape::group_rows * 32 * kept_quads * 2 + 700;
  static constexpr int window_pages  = 512;
  static constexpr int batch_quads   = 2;
  static constexpr int batch_pages   = 1;
};

//! A plan brought back from the device.
template <class Shape>
struct planned_groups {
  using mask_type = typename Shape::mask_type;

  status result = status::ok;
  int capacity  = 0;
  std::vector<page_address> addresses;  //!< [groups, capacity]
  std::vector<mask_type> masks;         //!< [groups, capacity]
  std::vector<std::int32_t> num_pages;  //!< [groups]
  plan_report report{};
  bool is_guarded = false;  //!< nothing wrote outside the arrays
};

//! Brings a plan back.
template <class Shape>
planned_groups<Shape> fetch(device_plan<Shape> const& planned, status result) {
  planned_groups<Shape> fetched;
  fetched.result     = result;
  fetched.capacity   = planned.view().capacity;
  fetched.addresses  = planned.addresses();
  fetched.masks      = planned.masks();
  fetched.num_pages  = planned.num_pages();
  fetched.is_guarded = planned.is_guarded();
  return fetched;
}

//! Plans on the device, with a report if `calls` is not 0: that many planning calls add to it.
template <class Shape, class Sizes = detail::planner_sizes<Shape>>
planned_groups<Shape> plan_on_device(host_problem const& p, int calls = 1) {
  device_problem const problem(p);
  device_plan<Shape> const planned(p);
  device_array report(std::vector<plan_report>{plan_report{}});
  status result = status::ok;
  for (int call = 0; call < (calls == 0 ? 1 : calls) && result == status::ok; ++call) {
    result = detail::enqueue_plan<Shape, Sizes>(
        problem.rows(), problem.selected(), problem.operands().cache, planned.view(),
        calls == 0 ? nullptr : report.as<plan_report>(), nullptr);
  }
  planned_groups<Shape> fetched = fetch(planned, result);
  fetched.report                = report.download<plan_report>()[0];
  fetched.is_guarded            = fetched.is_guarded && report.is_guarded();
  return fetched;
}

//! Says where a group's plan differs from the host's; empty if nowhere. Padding may point at any
//! page of the group.
template <class Shape>
std::string difference(planned_groups<Shape> const& device,
                       std::vector<typename host_plan<Shape>::entry> const& host,
                       std::size_t group) {
  std::ostringstream found;
  found << "group " << group << ": ";
  std::set<std::pair<int, int>> pages;
  for (auto const& page : host) {
    pages.insert({page.address.block, page.address.first_token});
  }
  std::size_t const first = group * static_cast<std::size_t>(device.capacity);
  std::size_t place       = 0;
  for (std::size_t i = 0; i < host.size(); ++i) {
    if (place >= static_cast<std::size_t>(device.capacity)) {
      return found.str() + "the host's plan does not fit";
    }
    page_address const address = device.addresses[first + place];
    if (device.masks[first + place] != host[i].mask || address.block != host[i].address.block ||
        address.first_token != host[i].address.first_token) {
      found << "entry " << place << " is (" << address.block << ", " << address.first_token << ", "
            << std::hex << device.masks[first + place] << "), the host's page " << std::dec << i
            << " is (" << host[i].address.block << ", " << host[i].address.first_token << ", "
            << std::hex << host[i].mask << ")";
      return found.str();
    }
    ++place;
    bool const ends_category = i + 1 == host.size() || host[i + 1].category != host[i].category;
    for (; ends_category && place % Shape::tile_pages != 0; ++place) {
      page_address const pad = device.addresses[first + place];
      if (device.masks[first + place] != 0 || pages.count({pad.block, pad.first_token}) == 0) {
        found << "padding " << place << " has a mask or is no page of the group";
        return found.str();
      }
    }
  }
  if (device.num_pages[group] != static_cast<std::int32_t>(place)) {
    found << device.num_pages[group] << " entries, not " << place;
    return found.str();
  }
  return "";
}

//! Says where a device's plan differs from the host's; empty if nowhere.
template <class Shape>
std::string difference(planned_groups<Shape> const& device, host_plan<Shape> const& host) {
  if (device.result != status::ok) {
    return to_string(device.result);
  }
  if (!device.is_guarded) {
    return "wrote outside the plan's arrays";
  }
  if (device.num_pages.size() != host.groups().size()) {
    return "another number of groups";
  }
  for (std::size_t group = 0; group < host.groups().size(); ++group) {
    std::string const found = difference(device, host.groups()[group], group);
    if (!found.empty()) {
      return found;
    }
  }
  return "";
}

//! Plans with two shapes, with and without a report, and says the first difference from the host.
template <class Shape>
std::string plan_and_compare(host_problem const& p) {
  host_plan<Shape> const host(p);
  planned_groups<Shape> const reported = plan_on_device<Shape>(p);
  std::string found                    = difference(reported, host);
  if (found.empty()) {
    found = difference(reported.report, host.report());
  }
  if (found.empty()) {
    found = difference(plan_on_device<Shape, tiny_planner_sizes<Shape>>(p, 0), host);
    found = found.empty() ? "" : "tiny shape: " + found;
  }
  return found;
}

}  // namespace pageunion::test
