// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 5. A plan_report as a table for people. Host only; knows the counters, not who counted.
#pragma once

#include <cstdio>
#include <string>

#include <pageunion/plan.hpp>

PAGEUNION_DETAIL_NAMESPACE_BEGIN

//! "label   count   share": the share of `whole`, left out if there is no whole.
inline void append_count(std::string& text, char const* label, unsigned long long count,
                         unsigned long long whole) {
  char line[96];
  if (whole == 0) {
    std::snprintf(line, sizeof(line), "%-28s %14llu\n", label, count);
  } else {
    std::snprintf(line, sizeof(line), "%-28s %14llu %7.2f %%\n", label, count,
                  100.0 * static_cast<double>(count) / static_cast<double>(whole));
  }
  text += line;
}

//! "label   quotient"; nothing if there is nothing to divide by.
inline void append_mean(std::string& text, char const* label, unsigned long long sum,
                        unsigned long long count) {
  if (count != 0) {
    char line[96];
    std::snprintf(line, sizeof(line), "%-28s %14.2f\n", label,
                  static_cast<double>(sum) / static_cast<double>(count));
    text += line;
  }
}

//! One line for each bin that is not empty: its pages, its groups, a bar.
inline void append_histogram(std::string& text, plan_report const& report) {
  constexpr unsigned long long bar_length = 40;  // characters of the longest bar
  unsigned long long most                 = 1;
  for (unsigned long long const groups : report.histogram) {
    most = groups > most ? groups : most;
  }
  for (int bin = 0; bin < plan_report::num_bins; ++bin) {
    unsigned long long const groups = report.histogram[bin];
    if (groups != 0) {
      char const* const range =
          bin + 1 < plan_report::num_bins ? "  %4d to %4d pages" : "  %4d or more pages";
      char label[48];
      std::snprintf(label, sizeof(label), range, bin * plan_report::bin_pages,
                    (bin + 1) * plan_report::bin_pages - 1);
      append_count(text, label, groups, 0);
      text.replace(text.size() - 1, 1, "  ");
      text.append(static_cast<std::size_t>((groups * bar_length + most - 1) / most), '#');
      text += '\n';
    }
  }
}

PAGEUNION_DETAIL_NAMESPACE_END
PAGEUNION_NAMESPACE_BEGIN

//! A report as a table of lines: rows, entries and why they were dropped, unions and their sizes.
//! @param report in host memory
inline std::string format_report(plan_report const& report) {
  std::string text;
  detail::append_count(text, "rows", report.rows, 0);
  detail::append_count(text, "  of no request", report.bad_request_rows, report.rows);
  detail::append_count(text, "  empty", report.empty_rows, report.rows);
  detail::append_count(text, "entries", report.entries, 0);
  detail::append_count(text, "  dropped: negative", report.negative, report.entries);
  detail::append_count(text, "  dropped: not visible", report.not_visible, report.entries);
  detail::append_count(text, "  dropped: past block table", report.past_table, report.entries);
  detail::append_count(text, "  dropped: unmapped block", report.unmapped_block, report.entries);
  detail::append_count(text, "pages of rows", report.row_pages, 0);
  detail::append_count(text, "pages of unions", report.union_pages, report.row_pages);
  detail::append_count(text, "  padding", report.padded_pages - report.union_pages,
                       report.union_pages);
  detail::append_count(text, "  dropped: over capacity", report.over_capacity, 0);
  detail::append_mean(text, "rows per page", report.row_pages, report.union_pages);
  detail::append_mean(text, "pages per union", report.union_pages, report.groups);
  detail::append_count(text, "largest union", report.largest_union, 0);
  detail::append_count(text, "groups", report.groups, 0);
  detail::append_histogram(text, report);
  return text;
}

PAGEUNION_NAMESPACE_END
