// SPDX-License-Identifier: Apache-2.0
#include <pageunion/report.hpp>

#include <string>

#include "support/catch.hpp"

using pageunion::format_report;
using pageunion::plan_report;

namespace {

//! The line that begins with a label; empty if there is none.
std::string line_of(std::string const& table, std::string const& label) {
  std::size_t const begin = ("\n" + table).find("\n" + label + " ");
  return begin == std::string::npos ? "" : table.substr(begin, table.find('\n', begin) - begin);
}

//! True if a label's line holds this text behind the label.
bool has(std::string const& table, std::string const& label, std::string const& text) {
  std::string const line = line_of(table, label);
  return line.find(" " + text, label.size()) != std::string::npos;
}

}  // namespace

TEST_CASE("a report's table has every counter and its share", "[report]") {
  plan_report report{};
  report.rows             = 200;
  report.bad_request_rows = 3;
  report.empty_rows       = 7;
  report.entries          = 10000;
  report.negative         = 11;
  report.not_visible      = 13;
  report.past_table       = 17;
  report.unmapped_block   = 19;
  report.over_capacity    = 23;
  report.groups           = 25;
  report.union_pages      = 1600;
  report.padded_pages     = 1700;
  report.row_pages        = 4800;
  report.largest_union    = 129;
  report.histogram[0]     = 5;
  report.histogram[1]     = 19;
  report.histogram[71]    = 1;
  std::string const table = format_report(report);
  CAPTURE(table);
  CHECK(has(table, "rows", "200"));
  CHECK(has(table, "  of no request", "3    1.50 %"));
  CHECK(has(table, "  empty", "7    3.50 %"));
  CHECK(has(table, "entries", "10000"));
  CHECK(has(table, "  dropped: negative", "11    0.11 %"));
  CHECK(has(table, "  dropped: not visible", "13    0.13 %"));
  CHECK(has(table, "  dropped: past block table", "17    0.17 %"));
  CHECK(has(table, "  dropped: unmapped block", "19    0.19 %"));
  CHECK(has(table, "pages of rows", "4800"));
  CHECK(has(table, "pages of unions", "1600   33.33 %"));
  CHECK(has(table, "  padding", "100    6.25 %"));
  CHECK(has(table, "  dropped: over capacity", "23"));
  CHECK(has(table, "rows per page", "3.00"));
  CHECK(has(table, "pages per union", "64.00"));
  CHECK(has(table, "largest union", "129"));
  CHECK(has(table, "groups", "25"));
  CHECK(has(table, "     0 to   63 pages", "5"));
  CHECK(has(table, "    64 to  127 pages", "19"));
  CHECK(has(table, "  4544 or more pages", "1"));
  CHECK(line_of(table, "   128 to  191 pages").empty());
}

TEST_CASE("the longest bar of the histogram is the fullest bin's", "[report]") {
  plan_report report{};
  report.histogram[2]     = 40;
  report.histogram[3]     = 1;
  std::string const table = format_report(report);
  CHECK(has(table, "   128 to  191 pages", " " + std::string(40, '#')));
  CHECK(has(table, "   192 to  255 pages", " #"));
  CHECK(table.find(std::string(41, '#')) == std::string::npos);
}

TEST_CASE("a report of nothing divides by nothing", "[report]") {
  std::string const table = format_report(plan_report{});
  CHECK(table.find("nan") == std::string::npos);
  CHECK(table.find("inf") == std::string::npos);
  CHECK(table.find('#') == std::string::npos);
  CHECK(has(table, "rows", "0"));
}
