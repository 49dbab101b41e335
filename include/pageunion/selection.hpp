// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 3. What the rows of a call are and which tokens they chose. Views of device memory
//! (host memory for the reference); nothing here is checked or owned.
#pragma once

#include <cstdint>

#include <pageunion/version.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! The rows of one call.
struct batch {
  std::int32_t num_rows            = 0;        //!< query tokens
  std::int32_t const* row_request  = nullptr;  //!< [num_rows], request of a row; -1 = padding row
  std::int64_t const* row_position = nullptr;  //!< [num_rows], position in the row's request
  std::int32_t const* sequence_length = nullptr;  //!< [num_requests], tokens of a request
};

//! Every row lists tokens. QSA: width 2051 (512 pages x 4 and up to 3 tail tokens), then -1.
struct token_table {
  std::int32_t const* tokens = nullptr;  //!< [num_rows, width], positions; negative = none
  std::int32_t width         = 0;        //!< entries of a row
  std::int64_t row_stride    = 0;        //!< elements between two rows, at least width
  std::int32_t const* counts = nullptr;  //!< [num_rows] entries in use; null = all of width
  //! Elements between two counts. A count kept in a column of the table has the table's stride.
  std::int64_t count_stride = 1;
  //! The caller promises that no row's tokens lie in more pages than this; 0 = no promise, and the
  //! workspace holds one page per entry. QSA: 513. Where the promise is broken, pages are dropped and
  //! counted: by the grouped route those past group_rows * max_pages of a group, the last in plan
  //! order, by the row route those past max_pages of a row, the highest. Only then do routes differ.
  std::int32_t max_pages = 0;
};

//! Every row lists pages; the row's last, partly visible page is added by the library.
struct page_table {
  std::int32_t const* pages = nullptr;  //!< [num_rows, width], page numbers; negative = none
  std::int32_t width        = 0;        //!< entries of a row. QSA: 512
  std::int64_t row_stride   = 0;        //!< elements between two rows, at least width
};

//! Which of its two tables a selection uses.
enum class selection_kind : int { tokens, pages };

//! What the rows chose: one table or the other.
struct selection {
  selection_kind kind = selection_kind::tokens;
  token_table tokens;  //!< used if kind is tokens
  page_table pages;    //!< used if kind is pages

  selection() = default;
  //! Selection by tokens.
  selection(token_table const& table) : kind(selection_kind::tokens), tokens(table) {}
  //! Selection by pages.
  selection(page_table const& table) : kind(selection_kind::pages), pages(table) {}
};

PAGEUNION_NAMESPACE_END
