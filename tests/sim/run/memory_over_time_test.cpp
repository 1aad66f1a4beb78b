#include "sim/run/memory_over_time.hpp"

#include <algorithm>

#include "sim/predict/predict.hpp"
#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

RunResult synthetic(const std::string& flags) {
  return predict(spec(flags + " --tf 1 --tb 2"), nullptr);
}

std::int64_t of(const MemorySample& sample, MemoryCategory category) {
  return sample.bytes[static_cast<std::size_t>(category)];
}

/// A line a sample: microseconds, then each category in units of 512 bytes.
std::string drawn(const GpuMemoryOverTime& memory) {
  std::string text;
  for (const MemorySample& sample : memory.samples) {
    text += std::to_string(sample.time_ns / 1000) + ":";
    for (const std::int64_t bytes : sample.bytes) text += " " + std::to_string(bytes / 512);
    text += "\n";
  }
  return text;
}

std::int64_t largest_sum(const GpuMemoryOverTime& memory) {
  std::int64_t largest = 0;
  for (const MemorySample& sample : memory.samples) largest = std::max(largest, total_bytes(sample.bytes));
  return largest;
}

/// What the run's own peak is, and what must hold of any memory over time.
void check(const RunResult& run) {
  const std::vector<GpuMemoryOverTime> memory = memory_over_time(run);
  REQUIRE(memory.size() == run.peak_memory_bytes.size());
  for (std::size_t g = 0; g < memory.size(); ++g) {
    CHECK(largest_sum(memory[g]) == run.peak_memory_bytes[g]);
    CHECK(memory[g].peak_bytes == run.peak_memory_bytes[g]);
    REQUIRE_FALSE(memory[g].samples.empty());
    CHECK(memory[g].samples.front().time_ns == 0);
    CHECK(memory[g].samples.back().time_ns <= run.timeline.step_ns);
    CHECK(std::is_sorted(memory[g].samples.begin(), memory[g].samples.end(),
                         [](const MemorySample& a, const MemorySample& b) { return a.time_ns < b.time_ns; }));
    const bool none_below_0 = std::all_of(memory[g].samples.begin(), memory[g].samples.end(), [](const auto& sample) {
      return *std::min_element(sample.bytes.begin(), sample.bytes.end()) >= 0;
    });
    CHECK(none_below_0);
  }
}

}  // namespace

TEST_CASE("memory over time of one layer: in units of 512 bytes, by microsecond") {
  // 128 x 128 weights and 128 biases: 128 + 1 units. A batch of 4 rows: 4 units for input, output, targets.
  const RunResult run = synthetic("--strategy single --workers one --microbatches 1 --depth 1 --dim 128 --batch 4");
  const std::vector<GpuMemoryOverTime> memory = memory_over_time(run);
  REQUIRE(memory.size() == 1);
  CHECK(drawn(memory[0]) ==
        "0: 129 0 0 0 0 0 12\n"         // parameters; batch, targets, the loss of the step before
        "0: 129 0 0 4 0 0 16\n"         // forward: the result, and what ReLU is of
        "1000: 129 0 0 4 0 0 12\n"      // which goes
        "1000: 129 0 0 4 0 0 20\n"      // backward begins with the loss: its terms and their mean's copy
        "1400: 129 0 0 4 0 0 16\n"      // the copy goes
        "1800: 129 0 0 12 0 0 16\n"     // the gradient of the result, and behind it that of ReLU
        "2200: 129 0 0 4 0 0 16\n"      // result and gradient go
        "2600: 129 129 0 4 0 0 16\n"    // the parameters' gradients
        "3000: 129 129 0 0 0 0 16\n"    // the last gradient of an activation goes
        "3000: 129 129 0 0 0 0 12\n");  // optimizer: the loss of the step before goes
  CHECK(memory[0].peak_bytes == run.peak_memory_bytes[0]);
}

TEST_CASE("memory over time: its largest sum is the peak of the prediction, whatever the run, and nothing is below 0") {
  const CostProfile profile = tiny_profile();
  const std::string small = " --depth 8 --dim 64 --batch 96";
  for (const std::string strategy :
       {"--strategy single", "--strategy single --workers one", "--strategy mp --gpus 4", "--strategy ddp --gpus 3",
        "--strategy ddp --gpus 2 --bucket-views 1", "--strategy dp --gpus 4", "--strategy dp --gpus 1",
        "--schedule gpipe --gpus 4", "--schedule 1f1b --gpus 4", "--schedule option-c --gpus 4 --workers one",
        "--schedule gpipe --gpus 4 --workers one", "--schedule zb-h1 --gpus 4", "--schedule zb-v --gpus 4",
        "--schedule interleaved --gpus 2", "--schedule dualpipe-v --gpus 4", "--schedule 1f1b --gpus 4 --dp 2"}) {
    for (const std::string more :
         {"", " --optimizer adam", " --dtype amp-fp16", " --dtype amp-bf16 --optimizer adam", " --recompute 1",
          " --accum 3", " --microbatches 8", " --microbatches 8 --accum 2"}) {
      INFO(strategy + more);
      std::optional<RunResult> run;
      try {
        run = synthetic(strategy + more + small);
      } catch (const std::runtime_error&) {
        continue;  // what no program can do
      }
      check(*run);
    }
  }
}

TEST_CASE("memory over time: a profile's workspaces are their own category") {
  CostProfile profile = tiny_profile();
  const RunResult run = predict(spec("--strategy mp --gpus 2 --depth 2 --dim 64 --batch 256"), &profile);
  check(run);
  const RunResult again = run_from_json(nlohmann::json::parse(run_text(run)), "run.json");
  CHECK(memory_over_time(again)[0].samples.front().bytes == memory_over_time(run)[0].samples.front().bytes);
  RunResult with = run;
  with.workspaces->autograd = 1000;
  with.peak_memory_bytes = {run.peak_memory_bytes[0] + 1000, run.peak_memory_bytes[1] + 1000};
  check(with);
  CHECK(of(memory_over_time(with)[1].samples.back(), MemoryCategory::workspaces) ==
        of(memory_over_time(run)[1].samples.back(), MemoryCategory::workspaces) + 1000);
}

TEST_CASE("memory over time of a measured run: what its peak has above the replay is other") {
  RunResult run = synthetic("--strategy mp --gpus 2 --depth 2 --dim 64 --batch 256");
  const MemorySample before = memory_over_time(run)[0].samples.front();
  run.measured = true;
  run.workspaces.reset();
  run.peak_memory_bytes[0] += 4096;
  run.peak_memory_bytes[1] -= 512;  // less than the replay: shown as the replay has it
  const std::vector<GpuMemoryOverTime> memory = memory_over_time(run);
  CHECK(of(memory[0].samples.front(), MemoryCategory::other) == of(before, MemoryCategory::other) + 4096);
  CHECK(memory[0].peak_bytes == run.peak_memory_bytes[0]);
  CHECK(memory[1].peak_bytes == run.peak_memory_bytes[1] + 512);
  run.timeline.spans.pop_back();
  CHECK(memory_over_time(run).empty());  // not the spans of its plan
}
