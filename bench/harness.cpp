// SPDX-License-Identifier: Apache-2.0
#include "harness.hpp"

#include <benchmark/benchmark.h>
#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "event_timer.hpp"
#include "problem_file.hpp"

namespace pageunion::bench {
namespace {

//! Exit code of a program that needs a device and has none; ctest's SKIP_RETURN_CODE.
constexpr int skipped = 77;

constexpr int repetitions = 30;

//! Options of our own, taken out of the command line before Google Benchmark sees it.
struct options {
  std::string problem;       //!< --problem FILE: run on this problem
  std::string export_to;     //!< --export FILE: write the problem and end
  std::string workload;      //!< --workload NAME: what --export writes
  std::string profile_case;  //!< --cuda-profile-case NAME: one repetition between profiler marks
  bool lists_only = false;   //!< --benchmark_list_tests: needs no device
};

//! Takes "--name value" or "--name=value" out of the arguments.
bool take(int& argc, char** argv, int i, char const* name, std::string& value) {
  std::size_t const length = std::strlen(name);
  if (std::strncmp(argv[i], name, length) != 0) {
    return false;
  }
  int used = 1;
  if (argv[i][length] == '=') {
    value = argv[i] + length + 1;
  } else if (argv[i][length] == '\0' && i + 1 < argc) {
    value = argv[i + 1];
    used  = 2;
  } else {
    return false;
  }
  for (int j = i; j + used <= argc; ++j) {
    argv[j] = argv[j + used];
  }
  argc -= used;
  return true;
}

options parse(int& argc, char** argv) {
  options o;
  o.workload = "fresh-8k";
  for (int i = 1; i < argc;) {
    if (take(argc, argv, i, "--problem", o.problem) ||
        take(argc, argv, i, "--export", o.export_to) ||
        take(argc, argv, i, "--workload", o.workload) ||
        take(argc, argv, i, "--cuda-profile-case", o.profile_case)) {
      continue;
    }
    o.lists_only = o.lists_only || (std::strncmp(argv[i], "--benchmark_list_tests", 22) == 0 &&
                                    std::strcmp(argv[i] + 22, "=false") != 0);
    ++i;
  }
  return o;
}

[[noreturn]] void fail(std::string const& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::exit(EXIT_FAILURE);
}

host_problem read_or_fail(std::string const& path) {
  host_problem p;
  if (std::string const error = read_problem(path, p); !error.empty()) {
    fail(error);
  }
  return p;
}

void export_problem(options const& o) {
  auto const workload = named_workload(o.workload);
  if (o.problem.empty() && !workload) {
    std::string names;
    for (std::string const& name : workload_names()) {
      names += " " + name;
    }
    fail("no workload is called " + o.workload + ": expected one of" + names);
  }
  host_problem const p = o.problem.empty() ? make_workload(*workload) : read_or_fail(o.problem);
  if (std::string const error = write_problem(o.export_to, p); !error.empty()) {
    fail(error);
  }
  std::printf("%s: %d rows; %s\n", o.export_to.c_str(), p.num_rows,
              to_string(measure_overlap(p)).c_str());
}

int attribute(cudaDeviceAttr name) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, 0), "cudaDeviceGetAttribute");
  return value;
}

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

void describe_device(void const* kernel, std::string const& command) {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  cudaFuncAttributes code{};
  check(cudaFuncGetAttributes(&code, kernel), "cudaFuncGetAttributes");
  auto const add = [](char const* key, std::string const& value) {
    benchmark::AddCustomContext(key, value);
  };
  add("command", command);
  add("device", device.name);
  add("compute_capability", std::to_string(device.major) + "." + std::to_string(device.minor));
  add("num_sms", std::to_string(device.multiProcessorCount));
  add("sm_clock_MHz", std::to_string(attribute(cudaDevAttrClockRate) / 1000));
  add("memory_clock_MHz", std::to_string(attribute(cudaDevAttrMemoryClockRate) / 1000));
  add("memory_GiB", std::to_string(device.totalGlobalMem >> 30));
  add("l2_MiB", std::to_string(device.l2CacheSize >> 20));
  add("ecc", device.ECCEnabled != 0 ? "on" : "off");
  add("cuda_of_driver", version(driver));
  add("cuda_of_build", version(CUDART_VERSION));
  add("code", "PTX " + std::to_string(code.ptxVersion) + ", machine code " +
                  std::to_string(code.binaryVersion));
}

//! Overwrites the L2 cache.
class l2_flush {
 public:
  l2_flush() : scratch_(2 * static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize))) {}
  void operator()() const {
    check(cudaMemset(scratch_.data(), 0x5A, scratch_.size_bytes()), "cudaMemset");
  }

 private:
  device_array scratch_;
};

//! The function that Google Benchmark calls: once per case, since the iterations are fixed.
void time_case(benchmark::State& state, bench_case const& c) {
  std::fprintf(stderr, "running %s\n", c.name.c_str());
  prepared_case const prepared = c.prepare();
  event_timer timer;
  for (int i = 0; i < num_warm_ups; ++i) {
    timer.seconds(prepared.enqueue, nullptr);
  }
  std::unique_ptr<l2_flush> const flush(c.l2 == l2_state::cold ? new l2_flush : nullptr);
  std::vector<double> times;
  for (auto _ : state) {
    if (flush) {
      (*flush)();
    }
    times.push_back(timer.seconds(prepared.enqueue, nullptr));
    state.SetIterationTime(times.back());
  }
  double const middle         = median(times);
  state.counters["median_ms"] = 1e3 * middle;
  for (auto const& [name, value] : prepared.facts) {
    state.counters[name] = value;
  }
  for (auto const& [name, amount] : prepared.amounts) {
    state.counters[name] = amount / middle;
  }
}

//! One repetition of one case between the profiler's marks; all else is outside them.
void profile(bench_case const& c) {
  prepared_case const prepared = c.prepare();
  for (int i = 0; i < num_warm_ups; ++i) {
    prepared.enqueue(nullptr);
  }
  check(cudaDeviceSynchronize(), "warm-up");
  check(cudaProfilerStart(), "cudaProfilerStart");
  prepared.enqueue(nullptr);
  check(cudaDeviceSynchronize(), c.name.c_str());
  check(cudaProfilerStop(), "cudaProfilerStop");
  std::printf("profiled one repetition of %s\n", c.name.c_str());
}

}  // namespace

problem_source generated(problem_spec const& shape) {
  std::string key = shape.name;
  for (int const number : {shape.num_rows, shape.num_requests, shape.max_length,
                           static_cast<int>(shape.kind), shape.heads_per_kv, shape.num_kv_heads,
                           shape.block_tokens, static_cast<int>(shape.layout)}) {
    key += " " + std::to_string(number);
  }
  return {key, [shape] { return make_workload(shape); }};
}

problem_handle load(problem_source const& source) {
  static std::string key;
  static problem_handle last;
  if (last == nullptr || key != source.key) {
    last.reset();  // before the next is made: two may not fit
    last = std::make_shared<loaded_problem const>(source.make());
    key  = source.key;
  }
  return last;
}

void describe(loaded_problem const& p, prepared_case& c) {
  c.facts["rows"]          = p.host().num_rows;
  c.facts["requests"]      = p.host().num_requests;
  c.facts["jaccard"]       = p.sharing.jaccard;
  c.facts["pages_per_row"] = p.sharing.pages_per_row;
  for (int i = 0; i < 4; ++i) {
    c.facts["growth_" + std::to_string(growth_rows[i])] = p.sharing.growth[i];
  }
}

int run_benchmarks(int argc, char** argv, std::function<std::vector<bench_case>()> const& cases,
                   std::function<std::vector<bench_case>(problem_source const&)> const& on_file,
                   void const* kernel) {
  std::string command;
  for (int i = 0; i < argc; ++i) {
    command += (i == 0 ? "" : " ") + std::string(argv[i]);
  }
  options const o = parse(argc, argv);
  if (!o.export_to.empty()) {
    export_problem(o);
    return EXIT_SUCCESS;
  }
  std::vector<bench_case> const all =
      o.problem.empty() ? cases()
                        : on_file({o.problem, [path = o.problem] { return read_or_fail(path); }});
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return EXIT_FAILURE;
  }
  int num_devices       = 0;
  bool const has_device = cudaGetDeviceCount(&num_devices) == cudaSuccess && num_devices > 0;
  if (!has_device && !o.lists_only) {
    std::fprintf(stderr, "no CUDA device: skipped\n");
    return skipped;
  }
  if (!o.profile_case.empty()) {
    // --benchmark_list_tests appends how a case is timed to its name.
    std::string const wanted = o.profile_case.substr(0, o.profile_case.find("/iterations:"));
    for (bench_case const& c : all) {
      if (c.name == wanted) {
        profile(c);
        return EXIT_SUCCESS;
      }
    }
    fail("no case is called " + o.profile_case + ": --benchmark_list_tests names them");
  }
  if (has_device) {
    describe_device(kernel, command);
  }
  for (bench_case const& c : all) {
    benchmark::RegisterBenchmark(c.name.c_str(),
                                 [&c](benchmark::State& state) { time_case(state, c); })
        ->UseManualTime()
        ->Iterations(repetitions)
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return EXIT_SUCCESS;
}

}  // namespace pageunion::bench
