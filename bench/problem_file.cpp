// SPDX-License-Identifier: Apache-2.0
#include "problem_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace pageunion::bench {
namespace {

using json = nlohmann::ordered_json;

//! What is wrong with a file; ends the reading and becomes read_problem()'s answer.
struct broken {
  std::string sentence;
};

void expect(bool holds, std::string const& sentence) {
  if (!holds) {
    throw broken{sentence};
  }
}

//! Header of a .safetensors file: 8 bytes of length, little-endian, then JSON. The reference
//! implementation refuses longer headers than this.
constexpr std::uint64_t max_header_bytes = 100'000'000;

//! No extent and no tensor has more elements than this; the square of it fits in 64 bits.
constexpr std::uint64_t max_elements = 0xffffffff;

constexpr std::int64_t int32_max = std::numeric_limits<std::int32_t>::max();

//! The format's name of an element type.
template <class T>
constexpr char const* dtype = nullptr;
template <>
constexpr char const* dtype<std::int32_t> = "I32";
template <>
constexpr char const* dtype<std::int64_t> = "I64";
template <>
constexpr char const* dtype<std::uint16_t> = "F16";  // the bits of a half

//! Extents of a tensor. Where a shape is expected, -1 accepts any extent, and an empty shape any shape.
using shape_type = std::vector<std::int64_t>;

std::string shape_text(shape_type const& shape) {
  std::string text;
  for (std::int64_t const extent : shape) {
    text += (text.empty() ? "" : ", ") + (extent < 0 ? "any" : std::to_string(extent));
  }
  return "[" + text + "]";
}

bool are_whole_numbers(json const& list) {
  return list.is_array() && std::all_of(list.begin(), list.end(), [](json const& number) {
           return number.is_number_unsigned();
         });
}

bool is_shape(json const& actual, shape_type const& expected) {
  auto const matches = [](json const& extent, std::int64_t wanted) {
    return wanted < 0 || extent == wanted;
  };
  return are_whole_numbers(actual) &&
         (expected.empty() ||
          std::equal(actual.begin(), actual.end(), expected.begin(), expected.end(), matches));
}

template <class T>
struct tensor {
  shape_type shape;
  std::vector<T> values;
};

//! An open file whose header was read.
class tensor_file {
 public:
  explicit tensor_file(std::string const& path) : path_(path), in_(path, std::ios::binary) {
    expect(in_.is_open(), path + " cannot be opened");
    std::error_code ignored;  // of what has no size nothing can be read either
    std::uint64_t const file_bytes = std::filesystem::file_size(path, ignored);
    std::uint64_t header_bytes     = 0;
    in_.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
    expect(in_.good() && header_bytes <= max_header_bytes && header_bytes <= file_bytes - 8,
           path +
               " is truncated or no .safetensors file: expected 8 bytes that hold the length of "
               "a header, and the header");
    std::string text(header_bytes, '\0');
    in_.read(text.data(), static_cast<std::streamsize>(header_bytes));
    header_ = json::parse(text, nullptr, false);
    expect(header_.is_object(), path + " has a header that is no JSON object");
    metadata_ = header_.value("__metadata__", json::object());
    expect(metadata_.is_object(), "__metadata__ is no object: expected names with strings");
    data_begin_ = 8 + header_bytes;
    data_bytes_ = file_bytes - data_begin_;
  }

  bool has(std::string const& name) const { return header_.contains(name); }

  //! Reads a tensor.
  template <class T>
  tensor<T> read(std::string const& name, shape_type const& expected) {
    json const entry = checked_entry(name, dtype<T>, sizeof(T), expected);
    auto const begin = entry["data_offsets"][0].get<std::uint64_t>();
    auto const bytes = entry["data_offsets"][1].get<std::uint64_t>() - begin;
    tensor<T> result{entry["shape"], std::vector<T>(bytes / sizeof(T))};
    in_.seekg(static_cast<std::streamoff>(data_begin_ + begin));
    in_.read(reinterpret_cast<char*>(result.values.data()), static_cast<std::streamsize>(bytes));
    expect(in_.good(), name + " cannot be read from " + path_);
    return result;
  }

  bool has_metadata(std::string const& name) const { return metadata_.contains(name); }

  //! A string of the metadata.
  std::string text(std::string const& name) const {
    json const value = metadata_.value(name, json());
    expect(value.is_string(), "metadata " + name + ": expected a string, not " + value.dump());
    return value;
  }

  //! A finite number of the metadata.
  float real(std::string const& name) const {
    return numbers(name, 1, "a finite number", [](json const& number) {
      return number.is_number() && std::isfinite(number.get<float>());
    })[0];
  }

  //! A whole number of the metadata, in [lowest, highest].
  std::int32_t whole_number(std::string const& name, std::int64_t lowest,
                            std::int64_t highest = int32_max) const {
    return static_cast<std::int32_t>(whole_numbers(name, 1, lowest, highest)[0]);
  }

  //! `count` comma-separated whole numbers of the metadata, each in [lowest, highest].
  //! @param lowest not negative
  std::vector<std::int64_t> whole_numbers(std::string const& name, std::size_t count,
                                          std::int64_t lowest, std::int64_t highest) const {
    std::string const expected = std::to_string(count) + " whole number(s) from " +
                                 std::to_string(lowest) + " to " + std::to_string(highest);
    return numbers(name, count, expected, [=](json const& number) {
      return number.is_number_unsigned() && number >= lowest && number <= highest;
    });
  }

 private:
  //! The numbers of the metadata string `name`, which are a JSON array without its brackets.
  template <class IsRight>
  json numbers(std::string const& name, std::size_t count, std::string const& expected,
               IsRight const& is_right) const {
    std::string const text = this->text(name);
    json const list        = json::parse("[" + text + "]", nullptr, false);
    expect(
        list.is_array() && list.size() == count && std::all_of(list.begin(), list.end(), is_right),
        "metadata " + name + ": expected " + expected + ", not '" + text + "'");
    return list;
  }

  //! A tensor's entry in the header, which is complete, as expected, and points into the file.
  json checked_entry(std::string const& name, char const* type, std::size_t element_bytes,
                     shape_type const& expected) const {
    std::string const wanted =
        std::string(": expected a tensor ") + type + " " + shape_text(expected);
    expect(has(name), name + " is missing" + wanted);
    json const entry    = header_.at(name);
    auto const property = [&entry](char const* key) {
      return entry.is_object() ? entry.value(key, json()) : json();
    };
    json const offsets = property("data_offsets");
    expect(property("dtype") == type && is_shape(property("shape"), expected) &&
               are_whole_numbers(offsets) && offsets.size() == 2,
           name + " is " + entry.dump() + wanted + " with data_offsets");
    std::uint64_t size = 1;
    for (json const& extent : entry["shape"]) {
      size = extent <= max_elements ? size * extent.get<std::uint64_t>() : max_elements + 1;
      expect(size <= max_elements, name + " is too large: expected " +
                                       std::to_string(max_elements) + " elements at most");
    }
    std::uint64_t const begin = offsets[0], end = offsets[1], bytes = size * element_bytes;
    expect(begin <= end && end - begin == bytes, name + " has data_offsets " + offsets.dump() +
                                                     ": expected " + std::to_string(bytes) +
                                                     " bytes by its shape and dtype");
    expect(end <= data_bytes_, name + " is truncated: expected data up to byte " +
                                   std::to_string(end) + ", the file holds " +
                                   std::to_string(data_bytes_));
    return entry;
  }

  std::string path_;
  std::ifstream in_;
  json header_;
  json metadata_;
  std::uint64_t data_begin_ = 0;
  std::uint64_t data_bytes_ = 0;
};

void read_metadata(tensor_file const& file, std::string const& path, host_problem& p) {
  // A file without a name is called as its path says: two such files stay apart in a table.
  p.name =
      file.has_metadata("name") ? file.text("name") : std::filesystem::path(path).stem().string();
  p.page_tokens  = file.whole_number("page_tokens", 1, 65536);
  p.block_tokens = file.whole_number("block_tokens", 1);
  expect(p.block_tokens % p.page_tokens == 0,
         "metadata block_tokens: expected a multiple of page_tokens, " +
             std::to_string(p.page_tokens));
  p.num_blocks        = file.whole_number("num_blocks", 0);
  p.num_kv_heads      = file.whole_number("num_kv_heads", 1, 65535);
  int const num_heads = file.whole_number("num_heads", 1, 65535);
  expect(
      num_heads % p.num_kv_heads == 0,
      "metadata num_heads: expected a multiple of num_kv_heads, " + std::to_string(p.num_kv_heads));
  p.heads_per_kv = num_heads / p.num_kv_heads;
  p.head_dim     = file.whole_number("head_dim", 8, 65536);
  expect(p.head_dim % 8 == 0, "metadata head_dim: expected a multiple of 8");
  p.scale     = file.has_metadata("scale") ? file.real("scale")
                                           : 1.0f / std::sqrt(static_cast<float>(p.head_dim));
  p.max_pages = file.has_metadata("max_pages") ? file.whole_number("max_pages", 0) : 0;
}

//! Reads a table and its extents.
std::vector<std::int32_t> read_table(tensor_file& file, std::string const& name, int& num_rows,
                                     int& width) {
  auto table = file.read<std::int32_t>(name, {-1, -1});
  expect(table.shape[0] <= int32_max && table.shape[1] <= int32_max,
         name + " is too large: expected extents that fit in 31 bits");
  num_rows = static_cast<int>(table.shape[0]);
  width    = static_cast<int>(table.shape[1]);
  return std::move(table.values);
}

void read_tables(tensor_file& file, host_problem& p) {
  bool const by_token = file.has("token_table");
  expect(by_token != file.has("page_table"),
         "token_table and page_table: expected exactly one of them");
  p.kind    = by_token ? selection_kind::tokens : selection_kind::pages;
  p.entries = read_table(file, by_token ? "token_table" : "page_table", p.num_rows, p.width);
  if (file.has("counts")) {
    expect(by_token, "counts: expected no such tensor beside a page_table");
    p.counts_form = count_form::array;
    p.counts      = file.read<std::int32_t>("counts", {p.num_rows}).values;
  }
  p.row_request   = file.read<std::int32_t>("row_request", {p.num_rows}).values;
  p.row_position  = file.read<std::int64_t>("row_position", {p.num_rows}).values;
  p.block_entries = read_table(file, "block_table", p.num_requests, p.table_width);
  p.entry_stride  = p.width;
  p.table_stride  = p.table_width;
  expect(std::int64_t{p.table_width} * p.block_tokens <= int32_max,
         "block_table: expected its width times block_tokens to fit in 31 bits");
  p.sequence_length = file.read<std::int32_t>("sequence_length", {p.num_requests}).values;
}

//! Strides and offset of K or V in a tensor of `elements` elements, from the metadata.
kv_strides read_strides(tensor_file const& file, std::string const& which, host_problem const& p,
                        std::size_t elements, std::int64_t& offset) {
  constexpr std::int64_t highest = std::int64_t{1} << 40;
  std::string const name         = which + "_strides";
  auto const strides             = file.whole_numbers(name, 3, 0, highest);
  offset                         = file.whole_numbers(which + "_offset", 1, 0, highest)[0];
  for (std::int64_t const number : {strides[0], strides[1], strides[2], offset}) {
    expect(number % 8 == 0,
           "metadata " + name + " and " + which + "_offset: expected multiples of 8 elements");
  }
  // In double: the bound itself may not overflow.
  double const last = static_cast<double>(offset) +
                      static_cast<double>(strides[0]) * (p.num_blocks - 1.0) +
                      static_cast<double>(strides[1]) * (p.block_tokens - 1.0) +
                      static_cast<double>(strides[2]) * (p.num_kv_heads - 1.0) + p.head_dim;
  expect(p.num_blocks == 0 || last <= static_cast<double>(elements),
         "metadata " + name + ": expected offsets inside tensor kv of " + std::to_string(elements) +
             " elements");
  return {strides[0], strides[1], strides[2]};
}

//! Elements of K that are drawn at random at most: 32 GiB of K and V.
constexpr double max_drawn_elements = 8.0 * 1024 * 1024 * 1024;

void read_cache(tensor_file& file, host_problem& p) {
  if (file.has("kv")) {
    expect(!file.has("k") && !file.has("v"), "kv: expected no k and no v beside it");
    p.k_data    = file.read<std::uint16_t>("kv", {}).values;
    p.k_strides = read_strides(file, "k", p, p.k_data.size(), p.k_first);
    p.v_strides = read_strides(file, "v", p, p.k_data.size(), p.v_first);
  } else if (file.has("k") || file.has("v")) {
    shape_type const shape{p.num_blocks, p.block_tokens, p.num_kv_heads, p.head_dim};
    p.k_data    = file.read<std::uint16_t>("k", shape).values;
    p.v_data    = file.read<std::uint16_t>("v", shape).values;
    p.k_strides = contiguous_kv_strides(p.block_tokens, p.num_kv_heads, p.head_dim);
    p.v_strides = p.k_strides;
  } else {
    double const elements =
        static_cast<double>(p.num_blocks) * p.block_tokens * p.num_kv_heads * p.head_dim;
    expect(elements <= max_drawn_elements,
           "metadata num_blocks: expected K and V that fit in memory, as the file brings none");
    draw_cache(p, kv_layout::separate, /*gap=*/0, 1);
  }
}

//! True if K and V are two contiguous tensors.
bool is_separate(host_problem const& p) {
  kv_strides const expected = contiguous_kv_strides(p.block_tokens, p.num_kv_heads, p.head_dim);
  auto const is_contiguous  = [&](kv_strides const& s, std::int64_t first, std::size_t size) {
    return s.block == expected.block && s.token == expected.token && s.head == expected.head &&
           first == 0 && size == static_cast<std::size_t>(expected.block * p.num_blocks);
  };
  return is_contiguous(p.k_strides, p.k_first, p.k_data.size()) &&
         is_contiguous(p.v_strides, p.v_first, p.v_data.size());
}

//! Collects tensors for one file.
class tensor_writer {
 public:
  explicit tensor_writer(json const& metadata) { header_["__metadata__"] = metadata; }

  template <class T>
  void add(char const* name, std::vector<T> const& values, shape_type const& shape) {
    std::uint64_t bytes = sizeof(T);
    for (std::int64_t const extent : shape) {
      bytes *= static_cast<std::uint64_t>(extent);
    }
    header_[name] = {{"dtype", dtype<T>},
                     {"shape", shape},
                     {"data_offsets", {data_bytes_, data_bytes_ + bytes}}};
    parts_.emplace_back(reinterpret_cast<char const*>(values.data()), bytes);
    data_bytes_ += bytes;
  }

  std::string write(std::string const& path) const {
    std::string text = header_.dump(-1, ' ', true, json::error_handler_t::replace);
    // Tensors start on 8-byte boundaries, as the format asks for.
    text.resize((text.size() + 7) / 8 * 8, ' ');
    std::uint64_t const header_bytes = text.size();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<char const*>(&header_bytes), sizeof header_bytes);
    out << text;
    for (std::string_view const part : parts_) {
      out << part;
    }
    out.flush();
    return out.good() ? std::string() : path + " cannot be written";
  }

 private:
  json header_;
  std::uint64_t data_bytes_ = 0;
  std::vector<std::string_view> parts_;
};

}  // namespace

std::string write_problem(std::string const& path, host_problem const& p) {
  auto const text    = [](std::int64_t number) { return std::to_string(number); };
  auto const strides = [&text](kv_strides const& s) {
    return text(s.block) + "," + text(s.token) + "," + text(s.head);
  };
  json metadata       = {{"name", p.name},
                         {"page_tokens", text(p.page_tokens)},
                         {"block_tokens", text(p.block_tokens)},
                         {"num_blocks", text(p.num_blocks)},
                         {"num_heads", text(p.num_heads())},
                         {"num_kv_heads", text(p.num_kv_heads)},
                         {"head_dim", text(p.head_dim)},
                         {"max_pages", text(p.max_pages)},
                         {"scale", json(p.scale).dump()}};
  bool const separate = is_separate(p);
  std::vector<std::uint16_t> kv;
  if (!separate) {
    // V behind K, if each has an array of its own.
    kv                    = p.k_data;
    auto const v_array    = p.v_data.empty() ? 0 : static_cast<std::int64_t>(kv.size());
    metadata["k_strides"] = strides(p.k_strides);
    metadata["v_strides"] = strides(p.v_strides);
    metadata["k_offset"]  = text(p.k_first);
    metadata["v_offset"]  = text(v_array + p.v_first);
    kv.insert(kv.end(), p.v_data.begin(), p.v_data.end());
  }

  // The widest elements first, so that each tensor is aligned to its own.
  tensor_writer writer(metadata);
  writer.add("row_position", p.row_position, {p.num_rows});
  writer.add("row_request", p.row_request, {p.num_rows});
  writer.add("sequence_length", p.sequence_length, {p.num_requests});
  writer.add("block_table", p.block_entries, {p.num_requests, p.table_width});
  writer.add(p.kind == selection_kind::tokens ? "token_table" : "page_table", p.entries,
             {p.num_rows, p.width});
  if (!p.counts.empty()) {
    writer.add("counts", p.counts, {p.num_rows});
  }
  writer.add("q", p.q_data, {p.num_rows, p.num_heads(), p.head_dim});
  if (separate) {
    shape_type const shape{p.num_blocks, p.block_tokens, p.num_kv_heads, p.head_dim};
    writer.add("k", p.k_data, shape);
    writer.add("v", p.v_data, shape);
  } else {
    writer.add("kv", kv, {static_cast<std::int64_t>(kv.size())});
  }
  return writer.write(path);
}

std::string read_problem(std::string const& path, host_problem& p) {
  try {
    tensor_file file(path);
    host_problem read;
    read_metadata(file, path, read);
    read_tables(file, read);
    draw_queries(read, /*gap=*/0, 1);
    if (file.has("q")) {
      read.q_data =
          file.read<std::uint16_t>("q", {read.num_rows, read.num_heads(), read.head_dim}).values;
    }
    read_cache(file, read);
    p = std::move(read);
    return {};
  } catch (broken const& b) {
    return b.sentence;
  } catch (std::bad_alloc const&) {
    return path + " describes a problem that does not fit in memory";
  }
}

}  // namespace pageunion::bench
