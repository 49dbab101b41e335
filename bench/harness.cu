// SPDX-License-Identifier: Apache-2.0
#include "harness.hpp"

#include <benchmark/benchmark.h>
#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "event_timer.hpp"
#include "problem_file.hpp"
#include "take_option.hpp"

namespace pageunion::bench {
namespace {

constexpr int repetitions = 30;

host_problem read_or_fail(std::string const& path) {
  host_problem p;
  if (std::string const error = read_problem(path, p); !error.empty()) {
    fail(error);
  }
  return p;
}

host_problem make_named(std::string const& name) {
  auto const workload = named_workload(name);
  if (!workload) {
    std::string names;
    for (std::string const& known : workload_names()) {
      names += " " + known;
    }
    fail("no workload is called " + name + ": expected one of" + names);
  }
  return make_workload(*workload);
}

void export_problem(std::string const& path, host_problem const& p) {
  if (std::string const error = write_problem(path, p); !error.empty()) {
    fail(error);
  }
  std::printf("%s: %d rows; %s\n", path.c_str(), p.num_rows, to_string(measure_overlap(p)).c_str());
}

int attribute(cudaDeviceAttr name) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, 0), "cudaDeviceGetAttribute");
  return value;
}

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

//! Only tells which machine code the device runs.
__global__ void empty_kernel() {}

void describe_device(std::string const& command) {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  cudaFuncAttributes code{};
  check(cudaFuncGetAttributes(&code, empty_kernel), "cudaFuncGetAttributes");
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

//! Enqueues one repetition, under its name on a profiler's timeline.
void enqueue(prepared_case const& c) {
  nvtxRangePushA(c.range);
  c.enqueue();
  nvtxRangePop();
}

//! Prepares a case and runs it until clocks, caches and the driver's compiler are warm.
prepared_case prepare_warm(bench_case const& c) {
  require_device();
  std::fprintf(stderr, "running %s\n", c.name.c_str());
  prepared_case const prepared = c.prepare();
  for (int i = 0; i < num_warm_ups; ++i) {
    enqueue(prepared);
  }
  check(cudaDeviceSynchronize(), c.name.c_str());
  return prepared;
}

//! The function that Google Benchmark calls: once per case, since the iterations are fixed.
void time_case(benchmark::State& state, bench_case const& c) {
  prepared_case const prepared = prepare_warm(c);
  event_timer timer;
  // What fills the L2 cache before every cold repetition.
  bool const is_cold = c.l2 == l2_state::cold;
  device_array const filling(is_cold ? std::size_t{2} * attribute(cudaDevAttrL2CacheSize) : 0);
  std::vector<double> times;
  for (auto _ : state) {
    if (is_cold) {
      check(cudaMemset(filling.data(), 0x5A, filling.size_bytes()), "cudaMemset");
    }
    times.push_back(timer.seconds([&prepared] { enqueue(prepared); }));
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

//! One repetition of the case of that name between the profiler's marks; all else is outside them.
void profile(std::vector<bench_case> const& cases, std::string const& name) {
  // --benchmark_list_tests appends how a case is timed to its name.
  std::string const wanted = name.substr(0, name.find("/iterations:"));
  auto const found         = std::find_if(cases.begin(), cases.end(),
                                          [&](bench_case const& c) { return c.name == wanted; });
  if (found == cases.end()) {
    fail("no case is called " + name + ": --benchmark_list_tests names them");
  }
  prepared_case const prepared = prepare_warm(*found);
  check(cudaProfilerStart(), "cudaProfilerStart");
  enqueue(prepared);
  check(cudaDeviceSynchronize(), wanted.c_str());
  check(cudaProfilerStop(), "cudaProfilerStop");
  std::printf("profiled one repetition of %s\n", wanted.c_str());
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

prepared_case described(loaded_problem const& p, char const* range) {
  prepared_case c;
  c.range                  = range;
  c.facts["rows"]          = p.host().num_rows;
  c.facts["requests"]      = p.host().num_requests;
  c.facts["jaccard"]       = p.sharing.jaccard;
  c.facts["pages_per_row"] = p.sharing.pages_per_row;
  for (int i = 0; i < 4; ++i) {
    c.facts["growth_" + std::to_string(growth_rows[i])] = p.sharing.growth[i];
  }
  return c;
}

int run_benchmarks(int argc, char** argv, std::function<std::vector<bench_case>()> const& cases,
                   std::function<std::vector<bench_case>(problem_source const&)> const& on_file) {
  std::string command = argv[0];
  for (int i = 1; i < argc; ++i) {
    command += " " + std::string(argv[i]);
  }
  std::string const problem      = take_option(argc, argv, "--problem");
  std::string const export_to    = take_option(argc, argv, "--export");
  std::string const workload     = take_option(argc, argv, "--workload", "fresh-8k");
  std::string const profile_case = take_option(argc, argv, "--cuda-profile-case");
  if (!export_to.empty()) {
    export_problem(export_to, problem.empty() ? make_named(workload) : read_or_fail(problem));
    return EXIT_SUCCESS;
  }
  std::vector<bench_case> const all =
      problem.empty() ? cases() : on_file({problem, [problem] { return read_or_fail(problem); }});
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return EXIT_FAILURE;
  }
  if (!profile_case.empty()) {
    profile(all, profile_case);
    return EXIT_SUCCESS;
  }
  if (has_device()) {
    describe_device(command);
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
