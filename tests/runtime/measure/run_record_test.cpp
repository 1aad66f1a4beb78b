#include "runtime/measure/run_record.hpp"

#include <string>

#include "runtime/measure/environment.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

/// Of one of two workers that have a task each.
RunRecord record_of(int worker) {
  RunRecord record;
  const std::int64_t late = 100 * worker;
  record.warmup = {{10, 20, false}};
  record.steps = {{30 + late, 40 + late, true}};
  record.recorded = {{{200 + late, 250 + late, false}, {}}};
  record.recorded[0].tasks.times.resize(2);
  record.recorded[0].tasks.times[static_cast<std::size_t>(worker)] = {210 + late, 220 + late};
  record.recorded[0].tasks.clock_uncertainty_us = 1 + worker;
  record.losses = {0.25 + worker, 0.125};
  record.peak_memory_bytes = {1000 + worker};
  record.process_peak_memory_bytes = {5000 + worker};
  record.cards = {"card " + std::to_string(worker)};
  record.gpus = {{{"power_w", 200.5 + worker}, {"sm_clock_mhz", 1500 + worker}}};
  return record;
}

}  // namespace

TEST_CASE("Records of two processes are joined: tasks and devices of both, sums of losses, the longer step",
          "[runtime][measure]") {
  RunRecord joined = record_of(0);
  join(joined, unpack(pack(record_of(1))));
  CHECK(joined.gpus == nlohmann::json::parse(
                           R"([{"power_w": 200.5, "sm_clock_mhz": 1500}, {"power_w": 201.5, "sm_clock_mhz": 1501}])"));
  CHECK(joined.cards == std::vector<std::string>{"card 0", "card 1"});
  CHECK(joined.peak_memory_bytes == std::vector<std::int64_t>{1000, 1001});
  CHECK(joined.process_peak_memory_bytes == std::vector<std::int64_t>{5000, 5001});
  CHECK(joined.losses == std::vector<double>{1.5, 0.25});
  CHECK(joined.steps[0].begin_ns == 30);
  CHECK(joined.steps[0].end_ns == 140);
  CHECK(joined.steps[0].skipped);
  REQUIRE(joined.recorded.size() == 1);
  CHECK(joined.recorded[0].step.end_ns == 350);
  CHECK(joined.recorded[0].tasks.times[0].start_ns == 210);
  CHECK(joined.recorded[0].tasks.times[1].end_ns == 320);
  CHECK(joined.recorded[0].tasks.clock_uncertainty_us == 2);
}

TEST_CASE("A process describes the GPUs of its own workers only", "[runtime][measure]") {
  RuntimeOptions options;
  options.device = DeviceKind::cpu;
  CHECK(describe_gpus(options, 4).empty());
#if PDL_CUDA
  options.device = DeviceKind::cuda;  // without a driver their descriptions are empty, but as many
  CHECK(describe_gpus(options, 4).size() == 4);
  options.rank = 2;
  options.device_indices = {2, 2, 2, 2};
  CHECK(describe_gpus(options, 4).size() == 1);
#endif
}
