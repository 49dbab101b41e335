// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "../problem_file.hpp"
#include "../problem_name.hpp"
#include "support/catch.hpp"

namespace bench = pageunion::bench;
using json      = nlohmann::ordered_json;

namespace {

//! A file of the test's own, removed at its end.
struct scratch_file {
  std::string path = "problem_file_test.safetensors";
  ~scratch_file() { std::remove(path.c_str()); }
};

void write_bytes(std::string const& path, std::string const& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

bench::problem_spec small_shape() {
  bench::problem_spec shape = *bench::named_workload("verify");
  shape.num_rows            = 6;
  shape.num_requests        = 2;
  bench::set_context(shape, 200);
  shape.pages_per_row = 8;
  shape.heads_per_kv  = 2;
  shape.num_kv_heads  = 2;
  shape.head_dim      = 16;
  shape.block_tokens  = 36;
  return shape;
}

//! Sizes and strides of a problem.
std::vector<std::int64_t> numbers_of(bench::host_problem const& p) {
  return {p.num_rows,       p.num_requests,    p.heads_per_kv,           p.num_kv_heads,
          p.head_dim,       p.page_tokens,     p.block_tokens,           p.num_blocks,
          p.table_width,    p.table_stride,    static_cast<int>(p.kind), p.width,
          p.entry_stride,   p.max_pages,       p.q_row_stride,           p.q_head_stride,
          p.k_first,        p.v_first,         p.k_strides.block,        p.k_strides.token,
          p.k_strides.head, p.v_strides.block, p.v_strides.token,        p.v_strides.head};
}

void check_same(bench::host_problem const& a, bench::host_problem const& b) {
  CHECK(a.name == b.name);
  CHECK(a.scale == b.scale);
  CHECK(numbers_of(a) == numbers_of(b));
  CHECK(a.row_request == b.row_request);
  CHECK(a.row_position == b.row_position);
  CHECK(a.sequence_length == b.sequence_length);
  CHECK(a.block_entries == b.block_entries);
  CHECK(a.entries == b.entries);
  CHECK(a.counts == b.counts);
  CHECK((a.q_data == b.q_data && a.k_data == b.k_data && a.v_data == b.v_data));
}

std::string bytes_of(std::string const& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

//! Changes a file's header by a JSON merge patch (RFC 7396): what is null there is erased.
void patch_header(std::string const& path, char const* patch) {
  std::string const all      = bytes_of(path);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, all.data(), 8);
  json header = json::parse(all.substr(8, header_bytes));
  header.merge_patch(json::parse(patch));
  std::string const text        = header.dump();
  std::uint64_t const num_bytes = text.size();
  write_bytes(path, std::string(reinterpret_cast<char const*>(&num_bytes), 8) + text +
                        all.substr(8 + header_bytes));
}

//! A patch that breaks a file in one way, and the words that the answer must hold.
struct breakage {
  char const* patch;
  std::vector<char const*> words;
};

void check_answers(bench::kv_layout layout, std::vector<breakage> const& breakages) {
  bench::problem_spec shape = small_shape();
  shape.layout              = layout;
  scratch_file const file;
  for (breakage const& b : breakages) {
    CAPTURE(b.patch);
    REQUIRE(bench::write_problem(file.path, bench::make_workload(shape)) == "");
    patch_header(file.path, b.patch);
    bench::host_problem p;
    p.name                   = "untouched";
    std::string const answer = bench::read_problem(file.path, p);
    CAPTURE(answer);
    for (char const* const word : b.words) {
      CAPTURE(word);
      CHECK(answer.find(word) != std::string::npos);
    }
    CHECK(p.name == "untouched");
  }
}

}  // namespace

TEST_CASE("a problem written and read back has the same bits", "[problem_file]") {
  auto const layout = GENERATE(bench::kv_layout::separate, bench::kv_layout::interleaved_blocks);
  auto const kind   = GENERATE(pageunion::selection_kind::tokens, pageunion::selection_kind::pages);
  bool const has_counts = GENERATE(false, true);
  CAPTURE(static_cast<int>(layout), static_cast<int>(kind), has_counts);
  bench::problem_spec shape = small_shape();
  shape.layout              = layout;
  shape.kind                = kind;
  bench::host_problem p     = bench::make_workload(shape);
  p.scale                   = 1.0f / 3.0f;  // needs nine digits
  p.name                    = "a name with \"quotes\"";
  if (has_counts && kind == pageunion::selection_kind::tokens) {
    p.counts_form = bench::count_form::array;
    p.counts      = {1, 2, 3, 4, 5, 99};
  }
  p.k_data[3] = 0x7e01;  // the payload of a NaN must survive

  scratch_file const file;
  REQUIRE(bench::write_problem(file.path, p) == "");
  bench::host_problem read;
  REQUIRE(bench::read_problem(file.path, read) == "");
  check_same(p, read);
}

TEST_CASE("a file that is broken in one way gets an answer that names it", "[problem_file]") {
  check_answers(
      bench::kv_layout::separate,
      {
          {R"({"__metadata__": null})", {"page_tokens", "expected"}},
          {R"({"__metadata__": 3})", {"__metadata__", "expected"}},
          {R"({"__metadata__": {"head_dim": "wide"}})", {"head_dim", "wide", "expected"}},
          {R"({"__metadata__": {"head_dim": 16}})", {"head_dim", "expected"}},
          {R"({"__metadata__": {"head_dim": "12"}})", {"head_dim", "multiple of 8"}},
          {R"({"__metadata__": {"num_blocks": "12x"}})", {"num_blocks", "12x"}},
          {R"({"__metadata__": {"num_blocks": "12.5"}})", {"num_blocks", "12.5"}},
          {R"({"__metadata__": {"page_tokens": "0"}})", {"page_tokens", "from 1"}},
          {R"({"__metadata__": {"num_heads": "99999999999999999999"}})", {"num_heads"}},
          {R"({"__metadata__": {"num_heads": "5"}})", {"num_heads", "multiple of num_kv_heads"}},
          {R"({"__metadata__": {"scale": "inf"}})", {"scale", "finite"}},
          {R"({"__metadata__": {"scale": "1e39"}})", {"scale", "finite"}},
          {R"({"__metadata__": {"scale": "true"}})", {"scale", "finite"}},
          {R"({"__metadata__": {"block_tokens": "38"}})", {"block_tokens", "of page_tokens"}},
          {R"({"__metadata__": {"block_tokens": "2000000000"}})", {"block_table", "31 bits"}},
          {R"({"k": null, "v": null, "__metadata__": {"num_blocks": "2147483647"}})",
           {"num_blocks"}},
          {R"({"row_position": null})", {"row_position", "missing", "I64"}},
          {R"({"token_table": null})", {"token_table", "page_table", "exactly one"}},
          {R"({"page_table": {}})", {"token_table", "page_table", "exactly one"}},
          {R"({"k": null})", {"k is missing"}},
          {R"({"v": null})", {"v is missing"}},
          {R"({"kv": {}})", {"kv", "no k and no v"}},
          {R"({"kv": {}, "v": null})", {"kv", "no k and no v"}},
          {R"({"q": "F16"})", {"q is", "expected a tensor F16"}},
          {R"({"q": {"dtype": null}})", {"q is", "F16"}},
          {R"({"row_position": {"dtype": "I32"}})", {"row_position", "I32", "I64"}},
          {R"({"k": {"shape": null}})", {"k is", "expected a tensor F16 ["}},
          {R"({"token_table": {"shape": [-6, 35]}})", {"token_table is", "-6"}},
          {R"({"token_table": {"shape": [6.5, 35]}})", {"token_table is", "6.5"}},
          {R"({"token_table": {"shape": [4000000000, 5000000000]}})", {"token_table", "too large"}},
          {R"({"q": {"shape": [6, 8, 8]}})", {"q is", "[6,8,8]", "[6, 4, 16]"}},
          {R"({"block_table": {"shape": [12]}})", {"block_table", "[12]", "[any, any]"}},
          {R"({"row_request": {"shape": [5]}})", {"row_request is", "[5]", "[6]"}},
          {R"({"sequence_length": {"shape": [3]}})", {"sequence_length is", "[3]", "[2]"}},
          {R"({"q": {"data_offsets": null}})", {"q is", "data_offsets"}},
          {R"({"q": {"data_offsets": [0, -1]}})", {"q is", "data_offsets"}},
          {R"({"q": {"data_offsets": [0]}})", {"q is", "data_offsets"}},
          {R"({"k": {"data_offsets": [64, 0]}})", {"k has data_offsets"}},
          {R"({"row_position": {"data_offsets": [0, 40]}})", {"row_position", "48 bytes by its"}},
          {R"({"row_position": {"data_offsets": [999952, 1000000]}})",
           {"row_position", "truncated"}},
      });
  check_answers(bench::kv_layout::interleaved_blocks,
                {
                    {R"({"__metadata__": {"k_strides": "4096,64,16"}})", {"inside tensor kv"}},
                    {R"({"__metadata__": {"v_offset": "1160"}})", {"inside tensor kv"}},
                    {R"({"__metadata__": {"v_strides": "2304,33,16"}})", {"multiples of 8"}},
                    {R"({"__metadata__": {"k_offset": "4"}})", {"multiples of 8"}},
                    {R"({"__metadata__": {"k_strides": "2304,32"}})", {"3 whole number"}},
                    {R"({"__metadata__": {"k_strides": "2304,-32,16"}})", {"3 whole number"}},
                    {R"({"__metadata__": {"k_strides": ""}})", {"3 whole number"}},
                });
}

TEST_CASE("what is no .safetensors file is refused", "[problem_file]") {
  scratch_file const file;
  auto const answer = [&file](std::string const& bytes) {
    write_bytes(file.path, bytes);
    bench::host_problem p;
    return bench::read_problem(file.path, p);
  };
  std::string const four_bytes("\4\0\0\0\0\0\0\0", 8);
  CHECK(answer("").find("truncated") != std::string::npos);
  CHECK(answer("short").find("truncated") != std::string::npos);
  CHECK(answer(std::string(8, '\xff')).find("truncated") != std::string::npos);
  CHECK(answer(four_bytes).find("truncated") != std::string::npos);
  CHECK(answer(four_bytes + "{\"a\"").find("no JSON object") != std::string::npos);
  CHECK(answer(four_bytes + "[12]").find("no JSON object") != std::string::npos);
  REQUIRE(bench::write_problem(file.path, bench::make_workload(small_shape())) == "");
  std::string const whole = bytes_of(file.path);
  CHECK(answer(whole.substr(0, whole.size() - 1)).find("v is truncated") != std::string::npos);
  bench::host_problem p;
  CHECK(bench::read_problem("no_such_file.safetensors", p).find("cannot be opened") !=
        std::string::npos);
  CHECK(bench::write_problem("no_such_folder/x.safetensors", p).find("cannot be written") !=
        std::string::npos);
}

TEST_CASE("a file with the tables alone gets operands of the right shape", "[problem_file]") {
  scratch_file const file;
  bench::host_problem const p = bench::make_workload(small_shape());
  REQUIRE(bench::write_problem(file.path, p) == "");
  patch_header(file.path, R"({"q": null, "k": null, "v": null,
                              "__metadata__": {"scale": null, "max_pages": null, "name": null}})");
  bench::host_problem read;
  REQUIRE(bench::read_problem(file.path, read) == "");
  CHECK(read.q_data.size() == p.q_data.size());
  CHECK(read.k_data.size() == p.k_data.size());
  CHECK(read.scale == pageunion::test::Approx(0.25f));
  CHECK(read.max_pages == 0);
  CHECK(read.name == "problem_file_test");  // of the path, where the file brings none
  CHECK(read.v_data.size() == p.v_data.size());
  CHECK(read.entries == p.entries);
}

TEST_CASE("a problem's name can name a file, and no two problems share one", "[problem_file]") {
  std::set<std::string> taken;
  CHECK(bench::claim_name("fresh-8k", taken) == "fresh-8k");
  CHECK(bench::claim_name("fresh-8k", taken) == "fresh-8k-2");
  CHECK(bench::claim_name("fresh-8k", taken) == "fresh-8k-3");
  CHECK(bench::claim_name("../a b/layer:3.x", taken) == "_._a_b_layer_3.x");
  CHECK(bench::claim_name("a/b", taken) == "a_b");
  CHECK(bench::claim_name("a\\b", taken) == "a_b-2");
  CHECK(bench::claim_name("a_b-2", taken) == "a_b-2-2");
  CHECK(bench::claim_name("", taken) == "problem");
  CHECK(bench::claim_name(std::string(1000, 'x'), taken).size() == 100);
}
