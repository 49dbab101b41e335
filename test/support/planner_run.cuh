// SPDX-License-Identifier: Apache-2.0
//! @file
//! Runs the planner on a planner_problem and says where the plan differs from the host's.
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
#include "host_plan.hpp"
#include "planner_problem.hpp"

namespace pageunion::test {

//! A shape so small that small problems need several windows of pages and several lists of each.
template <class Geometry>
struct PAGEUNION_HIDDEN tiny_planner_shape : detail::planner_shape<Geometry> {
  static constexpr int kept_quads    = 1;
  static constexpr int storage_bytes = Geometry::group_rows * 32 * kept_quads * 2 + 700;
  static constexpr int window_pages  = 512;
  static constexpr int batch_quads   = 2;
  static constexpr int batch_pages   = 1;
};

//! The problem's arrays on the device, each between guard bytes.
class device_planner_problem {
 public:
  explicit device_planner_problem(planner_problem const& p)
      : host_(p),
        row_request_(p.row_request),
        row_position_(p.row_position),
        sequence_length_(p.sequence_length),
        block_entries_(p.block_entries),
        entries_(p.entries),
        counts_(p.counts) {}

  //! Replaces the contents by another problem's of the same shapes. Pointers stay.
  void upload(planner_problem const& p) {
    row_request_.upload(p.row_request);
    row_position_.upload(p.row_position);
    sequence_length_.upload(p.sequence_length);
    block_entries_.upload(p.block_entries);
    entries_.upload(p.entries);
    counts_.upload(p.counts);
    host_ = p;
  }

  planner_problem const& host() const { return host_; }
  batch rows() const { return host_.rows(arrays()); }
  selection selected() const { return host_.selected(arrays()); }
  kv_cache cache() const { return host_.cache(arrays()); }

 private:
  planner_arrays arrays() const {
    return {row_request_.as<std::int32_t>(),     row_position_.as<std::int64_t>(),
            sequence_length_.as<std::int32_t>(), block_entries_.as<std::int32_t>(),
            entries_.as<std::int32_t>(),         counts_.as<std::int32_t>()};
  }

  planner_problem host_;
  device_array row_request_;
  device_array row_position_;
  device_array sequence_length_;
  device_array block_entries_;
  device_array entries_;
  device_array counts_;
};

//! Pages that a group may have, from the shapes of the problem.
template <class Geometry>
std::int64_t page_limit(planner_problem const& p) {
  return Geometry::group_rows * max_pages_per_row(p.selected(p.arrays()), Geometry::page_tokens,
                                                  p.block_tokens, p.table_width);
}

//! The host's plan of a problem.
template <class Geometry>
host_plan<Geometry> plan_on_host(planner_problem const& p) {
  return host_plan<Geometry>(p.rows(p.arrays()), p.selected(p.arrays()), p.cache(p.arrays()),
                             page_limit<Geometry>(p));
}

//! A plan brought back from the device.
template <class Geometry>
struct planned_groups {
  using mask_type = typename Geometry::mask_type;

  status result = status::ok;
  int capacity  = 0;
  std::vector<page_address> addresses;  //!< [groups, capacity]
  std::vector<mask_type> masks;         //!< [groups, capacity]
  std::vector<std::int32_t> num_pages;  //!< [groups]
  plan_report report{};
  bool is_guarded = false;  //!< nothing wrote outside the arrays
};

//! Brings a plan back.
template <class Geometry>
planned_groups<Geometry> fetch(device_plan<Geometry> const& planned, status result) {
  planned_groups<Geometry> fetched;
  fetched.result     = result;
  fetched.capacity   = planned.view().capacity;
  fetched.addresses  = planned.addresses();
  fetched.masks      = planned.masks();
  fetched.num_pages  = planned.num_pages();
  fetched.is_guarded = planned.is_guarded();
  return fetched;
}

//! Plans on the device, with a report if `calls` is not 0: that many planning calls add to it.
template <class Geometry, class Shape = detail::planner_shape<Geometry>>
planned_groups<Geometry> plan_on_device(planner_problem const& p, int calls = 1) {
  device_planner_problem const problem(p);
  device_plan<Geometry> const planned(
      p.num_rows(), group_capacity<Geometry>(page_limit<Geometry>(p) / Geometry::group_rows));
  device_array report(std::vector<plan_report>{plan_report{}});
  status result = status::ok;
  for (int call = 0; call < (calls == 0 ? 1 : calls) && result == status::ok; ++call) {
    result = detail::enqueue_plan<Geometry, Shape>(
        problem.rows(), problem.selected(), problem.cache(), planned.view(),
        calls == 0 ? nullptr : report.as<plan_report>(), nullptr);
  }
  planned_groups<Geometry> fetched = fetch(planned, result);
  fetched.report                   = report.download<plan_report>()[0];
  fetched.is_guarded               = fetched.is_guarded && report.is_guarded();
  return fetched;
}

//! Says where a group's plan differs from the host's; empty if nowhere. Padding may point at any
//! page of the group.
template <class Geometry>
std::string difference(planned_groups<Geometry> const& device,
                       std::vector<typename host_plan<Geometry>::entry> const& host,
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
    for (; ends_category && place % Geometry::tile_pages != 0; ++place) {
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
template <class Geometry>
std::string difference(planned_groups<Geometry> const& device, host_plan<Geometry> const& host) {
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

//! Says which counter of two reports differs; empty if none.
inline std::string difference(plan_report const& device, plan_report const& host) {
  struct named_counter {
    char const* name;
    unsigned long long plan_report::*counter;
  };
  constexpr named_counter counters[] = {
      {"rows", &plan_report::rows},
      {"bad_request_rows", &plan_report::bad_request_rows},
      {"empty_rows", &plan_report::empty_rows},
      {"entries", &plan_report::entries},
      {"negative", &plan_report::negative},
      {"not_visible", &plan_report::not_visible},
      {"past_table", &plan_report::past_table},
      {"unmapped_block", &plan_report::unmapped_block},
      {"over_capacity", &plan_report::over_capacity},
      {"groups", &plan_report::groups},
      {"union_pages", &plan_report::union_pages},
      {"padded_pages", &plan_report::padded_pages},
      {"row_pages", &plan_report::row_pages},
      {"largest_union", &plan_report::largest_union},
  };
  std::ostringstream found;
  for (named_counter const& c : counters) {
    if (device.*c.counter != host.*c.counter) {
      found << c.name << " is " << device.*c.counter << ", not " << host.*c.counter << "; ";
    }
  }
  for (int bin = 0; bin < plan_report::num_bins; ++bin) {
    if (device.histogram[bin] != host.histogram[bin]) {
      found << "histogram[" << bin << "] is " << device.histogram[bin] << ", not "
            << host.histogram[bin] << "; ";
    }
  }
  return found.str();
}

//! Plans with two shapes, with and without a report, and says the first difference from the host.
template <class Geometry>
std::string plan_and_compare(planner_problem const& p) {
  host_plan<Geometry> const host          = plan_on_host<Geometry>(p);
  planned_groups<Geometry> const reported = plan_on_device<Geometry>(p);
  std::string found                       = difference(reported, host);
  if (found.empty()) {
    found = difference(reported.report, host.report());
  }
  if (found.empty()) {
    found = difference(plan_on_device<Geometry, tiny_planner_shape<Geometry>>(p, 0), host);
    found = found.empty() ? "" : "tiny shape: " + found;
  }
  return found;
}

}  // namespace pageunion::test
