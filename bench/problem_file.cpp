// SPDX-License-Identifier: Apache-2.0
#include "problem_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace pageunion::bench {
namespace {

using json = nlohmann::ordered_json;

//! What is wrong with a file; ends the reading and becomes read_problem()'s answer.
struct broken {
  std::string sentence;
};

[[noreturn]] void fail(std::string const& sentence) { throw broken{sentence}; }

void expect(bool holds, std::string const& sentence) {
  if (!holds) {
    fail(sentence);
  }
}

//! Header of a .safetensors file: 8 bytes of length, little-endian, then JSON. The reference
//! implementation refuses longer headers than this.
constexpr std::uint64_t max_header_bytes = 100'000'000;

template <class T>
struct element;
template <>
struct element<std::int32_t> {
  static constexpr char const* dtype = "I32";
};
template <>
struct element<std::int64_t> {
  static constexpr char const* dtype = "I64";
};
template <>
struct element<std::uint16_t> {  // the bits of a half
  static constexpr char const* dtype = "F16";
};

//! No extent and no tensor has more elements than this; the square of it fits in 64 bits.
constexpr std::uint64_t max_extent = 0xffffffff;

std::string shape_text(std::vector<std::int64_t> const& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + (shape[i] < 0 ? std::string("any") : std::to_string(shape[i]));
  }
  return text + "]";
}

//! An open file whose header was read.
class tensor_file {
 public:
  explicit tensor_file(std::string const& path) : path_(path), in_(path, std::ios::binary) {
    expect(in_.is_open(), path + " cannot be opened");
    in_.seekg(0, std::ios::end);
    auto const file_bytes = static_cast<std::uint64_t>(in_.tellg());
    in_.seekg(0);
    expect(file_bytes >= 8, path + " is truncated: expected 8 bytes of header length");
    unsigned char length[8];
    in_.read(reinterpret_cast<char*>(length), 8);
    std::uint64_t header_bytes = 0;
    for (int i = 7; i >= 0; --i) {
      header_bytes = header_bytes << 8 | length[i];
    }
    expect(header_bytes <= max_header_bytes && header_bytes <= file_bytes - 8,
           path + " is truncated or no .safetensors file: its header claims " +
               std::to_string(header_bytes) + " bytes, and " + std::to_string(file_bytes - 8) +
               " follow");
    std::string text(header_bytes, '\0');
    in_.read(text.data(), static_cast<std::streamsize>(header_bytes));
    header_ = json::parse(text, nullptr, false);
    expect(header_.is_object(), path + " has a header that is no JSON object");
    data_begin_ = 8 + header_bytes;
    data_bytes_ = file_bytes - data_begin_;
    if (auto const metadata = header_.find("__metadata__"); metadata != header_.end()) {
      expect(metadata->is_object(), "__metadata__ is no object: expected names with strings");
      metadata_ = *metadata;
    }
  }

  bool has(std::string const& name) const { return header_.contains(name); }

  //! Reads a tensor. An extent of -1 in `shape` accepts any and receives the tensor's; an empty
  //! `shape` accepts every shape.
  template <class T>
  std::vector<T> read(std::string const& name, std::vector<std::int64_t>& shape) {
    expect(has(name),
           name + " is missing: expected a tensor " + element<T>::dtype + " " + shape_text(shape));
    json const& entry = header_[name];
    expect(entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string(),
           name + " has no dtype: expected " + element<T>::dtype);
    auto const dtype = entry["dtype"].template get<std::string>();
    expect(dtype == element<T>::dtype,
           name + " has dtype " + dtype + ": expected " + element<T>::dtype);
    std::uint64_t const size = match_shape(name, entry, shape);
    std::uint64_t const at   = match_offsets(name, entry, size * sizeof(T));
    std::vector<T> values(size);
    in_.seekg(static_cast<std::streamoff>(data_begin_ + at));
    in_.read(reinterpret_cast<char*>(values.data()),
             static_cast<std::streamsize>(size * sizeof(T)));
    expect(in_.good(), name + " cannot be read from " + path_);
    return values;
  }

  //! A whole number of the metadata, in [lowest, highest].
  std::int64_t number(std::string const& name, std::int64_t lowest, std::int64_t highest) const {
    return whole_numbers(name, 1, lowest, highest)[0];
  }

  //! `count` comma-separated whole numbers of the metadata, each in [lowest, highest].
  std::vector<std::int64_t> whole_numbers(std::string const& name, std::size_t count,
                                          std::int64_t lowest, std::int64_t highest) const {
    std::string const expected = "metadata " + name + ": expected " + std::to_string(count) +
                                 " whole number(s) from " + std::to_string(lowest) + " to " +
                                 std::to_string(highest);
    std::string const text = metadata(name, expected);
    std::vector<std::int64_t> numbers;
    std::size_t begin = 0;
    while (begin <= text.size()) {
      std::size_t const end  = std::min(text.find(',', begin), text.size());
      std::string const part = text.substr(begin, end - begin);
      char* stop             = nullptr;
      errno                  = 0;
      long long const value  = std::strtoll(part.c_str(), &stop, 10);
      expect(!part.empty() && *stop == '\0' && errno == 0 && value >= lowest && value <= highest,
             expected + ", not '" + text + "'");
      numbers.push_back(value);
      begin = end + 1;
    }
    expect(numbers.size() == count, expected + ", not '" + text + "'");
    return numbers;
  }

  //! A finite number of the metadata.
  float real(std::string const& name) const {
    std::string const expected = "metadata " + name + ": expected a finite number";
    std::string const text     = metadata(name, expected);
    char* stop                 = nullptr;
    float const value          = std::strtof(text.c_str(), &stop);
    expect(!text.empty() && *stop == '\0' && std::isfinite(value),
           expected + ", not '" + text + "'");
    return value;
  }

  bool has_metadata(std::string const& name) const { return metadata_.contains(name); }

  std::string metadata(std::string const& name, std::string const& expected) const {
    auto const found = metadata_.find(name);
    expect(found != metadata_.end() && found->is_string(), expected);
    return found->get<std::string>();
  }

 private:
  //! Compares a tensor's shape with the one expected; returns its number of elements.
  std::uint64_t match_shape(std::string const& name, json const& entry,
                            std::vector<std::int64_t>& shape) const {
    std::string const expected = ": expected shape " + shape_text(shape);
    expect(entry.contains("shape") && entry["shape"].is_array(), name + " has no shape" + expected);
    std::vector<std::int64_t> actual;
    std::uint64_t size = 1;
    for (json const& extent : entry["shape"]) {
      expect(extent.is_number_unsigned() && extent.get<std::uint64_t>() <= max_extent,
             name + " has an extent that is no whole number from 0 to " +
                 std::to_string(max_extent) + expected);
      actual.push_back(extent.get<std::int64_t>());
      size *= extent.get<std::uint64_t>();
      // Below the limit, one more extent or the element's size cannot overflow the product.
      expect(size <= max_extent, name + " is too large: the product of its extents exceeds " +
                                     std::to_string(max_extent));
    }
    if (shape.empty()) {
      return size;
    }
    bool matches = actual.size() == shape.size();
    for (std::size_t i = 0; matches && i < shape.size(); ++i) {
      matches = shape[i] < 0 || shape[i] == actual[i];
    }
    expect(matches, name + " has shape " + shape_text(actual) + expected);
    shape = actual;
    return size;
  }

  //! Compares a tensor's place in the file with its size; returns where its data starts.
  std::uint64_t match_offsets(std::string const& name, json const& entry,
                              std::uint64_t bytes) const {
    auto const offsets = entry.find("data_offsets");
    expect(offsets != entry.end() && offsets->is_array() && offsets->size() == 2 &&
               (*offsets)[0].is_number_unsigned() && (*offsets)[1].is_number_unsigned(),
           name + " has no data_offsets: expected two whole numbers");
    auto const begin = (*offsets)[0].get<std::uint64_t>();
    auto const end   = (*offsets)[1].get<std::uint64_t>();
    expect(begin <= end && end - begin == bytes,
           name + " has data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
               "]: expected " + std::to_string(bytes) + " bytes by its shape and dtype");
    expect(end <= data_bytes_, name + " is truncated: expected data up to byte " +
                                   std::to_string(end) + ", the file holds " +
                                   std::to_string(data_bytes_));
    return begin;
  }

  std::string path_;
  std::ifstream in_;
  json header_;
  json metadata_            = json::object();
  std::uint64_t data_begin_ = 0;
  std::uint64_t data_bytes_ = 0;
};

template <class T>
std::vector<T> read_shaped(tensor_file& file, char const* name, std::vector<std::int64_t> shape) {
  return file.read<T>(name, shape);
}

constexpr std::int64_t int32_max = std::numeric_limits<std::int32_t>::max();

std::int32_t small_number(tensor_file const& file, char const* name, std::int64_t lowest,
                          std::int64_t highest = int32_max) {
  return static_cast<std::int32_t>(file.number(name, lowest, highest));
}

//! A file without a name is called as its path says: two such files stay apart in a table.
std::string name_of(tensor_file const& file, std::string const& path) {
  return file.has_metadata("name") ? file.metadata("name", "metadata name: expected a string")
                                   : std::filesystem::path(path).stem().string();
}

void read_metadata(tensor_file const& file, host_problem& p) {
  p.page_tokens  = small_number(file, "page_tokens", 1, 65536);
  p.block_tokens = small_number(file, "block_tokens", 1);
  expect(p.block_tokens % p.page_tokens == 0,
         "metadata block_tokens: expected a multiple of page_tokens, " +
             std::to_string(p.page_tokens));
  p.num_blocks        = small_number(file, "num_blocks", 0);
  p.num_kv_heads      = small_number(file, "num_kv_heads", 1, 65535);
  int const num_heads = small_number(file, "num_heads", 1, 65535);
  expect(
      num_heads % p.num_kv_heads == 0,
      "metadata num_heads: expected a multiple of num_kv_heads, " + std::to_string(p.num_kv_heads));
  p.heads_per_kv = num_heads / p.num_kv_heads;
  p.head_dim     = small_number(file, "head_dim", 8, 65536);
  expect(p.head_dim % 8 == 0, "metadata head_dim: expected a multiple of 8");
  p.scale     = file.has_metadata("scale") ? file.real("scale")
                                           : 1.0f / std::sqrt(static_cast<float>(p.head_dim));
  p.max_pages = file.has_metadata("max_pages") ? small_number(file, "max_pages", 0) : 0;
}

void expect_int32(std::string const& name, std::vector<std::int64_t> const& shape) {
  for (std::int64_t const extent : shape) {
    expect(extent <= int32_max, name + " is too large: expected extents that fit in 31 bits");
  }
}

void read_tables(tensor_file& file, host_problem& p) {
  bool const by_token = file.has("token_table");
  expect(by_token != file.has("page_table"),
         "token_table and page_table: expected exactly one of them");
  char const* const table = by_token ? "token_table" : "page_table";
  p.kind                  = by_token ? selection_kind::tokens : selection_kind::pages;
  std::vector<std::int64_t> shape{-1, -1};
  p.entries = file.read<std::int32_t>(table, shape);
  expect_int32(table, shape);
  p.num_rows     = static_cast<std::int32_t>(shape[0]);
  p.width        = static_cast<std::int32_t>(shape[1]);
  p.entry_stride = p.width;
  if (file.has("counts")) {
    expect(by_token, "counts: expected no such tensor beside a page_table");
    p.counts_form = count_form::array;
    p.counts      = read_shaped<std::int32_t>(file, "counts", {p.num_rows});
  }
  p.row_request   = read_shaped<std::int32_t>(file, "row_request", {p.num_rows});
  p.row_position  = read_shaped<std::int64_t>(file, "row_position", {p.num_rows});
  shape           = {-1, -1};
  p.block_entries = file.read<std::int32_t>("block_table", shape);
  expect_int32("block_table", shape);
  p.num_requests = static_cast<std::int32_t>(shape[0]);
  p.table_width  = static_cast<std::int32_t>(shape[1]);
  p.table_stride = p.table_width;
  expect(std::int64_t{p.table_width} * p.block_tokens <= int32_max,
         "block_table: expected its width times block_tokens to fit in 31 bits");
  p.sequence_length = read_shaped<std::int32_t>(file, "sequence_length", {p.num_requests});
}

//! Strides and offset of K or V in a tensor of `elements` elements, from the metadata.
kv_strides read_strides(tensor_file const& file, char const* which, host_problem const& p,
                        std::int64_t elements, std::int64_t& offset) {
  std::string const name = std::string(which) + "_strides";
  auto const numbers     = file.whole_numbers(name, 3, 0, std::int64_t{1} << 40);
  offset                 = file.number(std::string(which) + "_offset", 0, std::int64_t{1} << 40);
  for (std::int64_t const number : {numbers[0], numbers[1], numbers[2], offset}) {
    expect(number % 8 == 0,
           "metadata " + name + " and " + which + "_offset: expected multiples of 8 elements");
  }
  kv_strides strides;
  strides.block = numbers[0];
  strides.token = numbers[1];
  strides.head  = numbers[2];
  // In double: the bound itself may not overflow.
  double const last = static_cast<double>(offset) +
                      static_cast<double>(strides.block) * (p.num_blocks - 1.0) +
                      static_cast<double>(strides.token) * (p.block_tokens - 1.0) +
                      static_cast<double>(strides.head) * (p.num_kv_heads - 1.0) + p.head_dim;
  expect(p.num_blocks == 0 || last <= static_cast<double>(elements),
         "metadata " + name + ": expected offsets inside tensor kv of " + std::to_string(elements) +
             " elements");
  return strides;
}

void read_cache(tensor_file& file, host_problem& p) {
  std::vector<std::int64_t> const shape{p.num_blocks, p.block_tokens, p.num_kv_heads, p.head_dim};
  if (file.has("kv")) {
    expect(!file.has("k") && !file.has("v"), "kv: expected no k and no v beside it");
    p.k_data            = read_shaped<std::uint16_t>(file, "kv", {});
    auto const elements = static_cast<std::int64_t>(p.k_data.size());
    p.k_strides         = read_strides(file, "k", p, elements, p.k_first);
    p.v_strides         = read_strides(file, "v", p, elements, p.v_first);
    return;
  }
  p.k_data    = read_shaped<std::uint16_t>(file, "k", shape);
  p.v_data    = read_shaped<std::uint16_t>(file, "v", shape);
  p.k_strides = contiguous_kv_strides(p.block_tokens, p.num_kv_heads, p.head_dim);
  p.v_strides = p.k_strides;
}

//! Elements of K that are drawn at random at most: 32 GiB of K and V.
constexpr double max_drawn_elements = 8.0 * 1024 * 1024 * 1024;

//! True if K and V are two contiguous tensors.
bool is_separate(host_problem const& p) {
  kv_strides const expected = contiguous_kv_strides(p.block_tokens, p.num_kv_heads, p.head_dim);
  auto const same           = [&expected](kv_strides const& s) {
    return s.block == expected.block && s.token == expected.token && s.head == expected.head;
  };
  auto const elements = static_cast<std::size_t>(expected.block * p.num_blocks);
  return same(p.k_strides) && same(p.v_strides) && p.k_first == 0 && p.v_first == 0 &&
         p.k_data.size() == elements && p.v_data.size() == elements;
}

//! Collects tensors for one file.
class tensor_writer {
 public:
  template <class T>
  void add(char const* name, T const* values, std::vector<std::int64_t> const& shape) {
    std::uint64_t bytes = sizeof(T);
    for (std::int64_t const extent : shape) {
      bytes *= static_cast<std::uint64_t>(extent);
    }
    header_[name] = {{"dtype", element<T>::dtype},
                     {"shape", shape},
                     {"data_offsets", {data_bytes_, data_bytes_ + bytes}}};
    parts_.push_back({reinterpret_cast<char const*>(values), bytes});
    data_bytes_ += bytes;
  }

  void add_metadata(char const* name, std::string const& value) {
    header_["__metadata__"][name] = value;
  }

  std::string write(std::string const& path) const {
    std::string text = header_.dump(-1, ' ', true, json::error_handler_t::replace);
    // Tensors start on 8-byte boundaries, as the format asks for.
    text.resize((text.size() + 7) / 8 * 8, ' ');
    std::ofstream out(path, std::ios::binary);
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) {
      length[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(text.size()) >> (8 * i));
    }
    out.write(reinterpret_cast<char const*>(length), 8);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    for (part const& p : parts_) {
      out.write(p.data, static_cast<std::streamsize>(p.bytes));
    }
    out.flush();
    return out.good() ? std::string() : path + " cannot be written";
  }

 private:
  struct part {
    char const* data;
    std::uint64_t bytes;
  };
  json header_              = json::object();
  std::uint64_t data_bytes_ = 0;
  std::vector<part> parts_;
};

}  // namespace

std::string write_problem(std::string const& path, host_problem const& p) {
  tensor_writer writer;
  auto const text = [](std::int64_t value) { return std::to_string(value); };
  char scale[32];
  std::snprintf(scale, sizeof scale, "%.9g", static_cast<double>(p.scale));
  writer.add_metadata("name", p.name);
  writer.add_metadata("page_tokens", text(p.page_tokens));
  writer.add_metadata("block_tokens", text(p.block_tokens));
  writer.add_metadata("num_blocks", text(p.num_blocks));
  writer.add_metadata("num_heads", text(p.num_heads()));
  writer.add_metadata("num_kv_heads", text(p.num_kv_heads));
  writer.add_metadata("head_dim", text(p.head_dim));
  writer.add_metadata("max_pages", text(p.max_pages));
  writer.add_metadata("scale", scale);

  // The widest elements first, so that each tensor is aligned to its own.
  writer.add("row_position", p.row_position.data(), {p.num_rows});
  writer.add("row_request", p.row_request.data(), {p.num_rows});
  writer.add("sequence_length", p.sequence_length.data(), {p.num_requests});
  writer.add("block_table", p.block_entries.data(), {p.num_requests, p.table_width});
  writer.add(p.kind == selection_kind::tokens ? "token_table" : "page_table", p.entries.data(),
             {p.num_rows, p.width});
  if (!p.counts.empty()) {
    writer.add("counts", p.counts.data(), {p.num_rows});
  }
  writer.add("q", p.q_data.data(), {p.num_rows, p.num_heads(), p.head_dim});
  if (is_separate(p)) {
    std::vector<std::int64_t> const shape{p.num_blocks, p.block_tokens, p.num_kv_heads, p.head_dim};
    writer.add("k", p.k_data.data(), shape);
    writer.add("v", p.v_data.data(), shape);
    return writer.write(path);
  }
  auto const strides = [&text](kv_strides const& s) {
    return text(s.block) + "," + text(s.token) + "," + text(s.head);
  };
  // V behind K, if each has an array of its own.
  std::vector<std::uint16_t> kv = p.k_data;
  kv.insert(kv.end(), p.v_data.begin(), p.v_data.end());
  auto const size    = static_cast<std::int64_t>(kv.size());
  auto const v_array = static_cast<std::int64_t>(p.v_data.empty() ? 0 : p.k_data.size());
  writer.add_metadata("k_strides", strides(p.k_strides));
  writer.add_metadata("v_strides", strides(p.v_strides));
  writer.add_metadata("k_offset", text(p.k_first));
  writer.add_metadata("v_offset", text(v_array + p.v_first));
  writer.add("kv", kv.data(), {size});
  return writer.write(path);
}

std::string read_problem(std::string const& path, host_problem& p) {
  try {
    tensor_file file(path);
    host_problem read;
    read.name = name_of(file, path);
    read_metadata(file, read);
    read_tables(file, read);
    draw_queries(read, /*gap=*/0, 1);
    if (file.has("q")) {
      read.q_data =
          read_shaped<std::uint16_t>(file, "q", {read.num_rows, read.num_heads(), read.head_dim});
    }
    if (file.has("kv") || file.has("k") || file.has("v")) {
      read_cache(file, read);
    } else {
      double const elements = static_cast<double>(read.num_blocks) * read.block_tokens *
                              read.num_kv_heads * read.head_dim;
      expect(elements <= max_drawn_elements,
             "metadata num_blocks: expected K and V that fit in memory, as the file brings none");
      draw_cache(read, kv_layout::separate, /*gap=*/0, 1);
    }
    p = std::move(read);
    return {};
  } catch (broken const& b) {
    return b.sentence;
  } catch (std::bad_alloc const&) {
    return path + " describes a problem that does not fit in memory";
  }
}

}  // namespace pageunion::bench
