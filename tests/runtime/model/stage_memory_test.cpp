// What the stages of a plan allocate is what sim/report/memory.cpp says that they do.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/model/pipeline_stage.hpp"
#include "sim/report/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/counted_memory.hpp"
#include "tests/support/every_schedule.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

std::int64_t allocated_by(const Plan& plan, int worker) {
  RuntimeOptions options;
  options.device = DeviceKind::cpu;
  const CountedMemory memory;
  std::vector<std::unique_ptr<PipelineStage>> stages;
  const PipelineStage* before = nullptr;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].worker != worker) continue;
    stages.push_back(std::make_unique<PipelineStage>(plan, static_cast<int>(s), at::kCPU, options, before));
    before = stages.back().get();
  }
  return memory.bytes();
}

void check(const std::string& flags) {
  const Plan plan = make_plan(spec("--dim 40 --depth 11 " + flags));
  INFO(describe(plan.spec));
  const std::vector<std::int64_t> predicted = predict_memory_bytes(plan, {});
  for (int worker = 0; worker < static_cast<int>(plan.spec.gpus); ++worker) {
    INFO("worker " << worker);
    CHECK(allocated_by(plan, worker) == predicted[static_cast<std::size_t>(worker)]);
  }
}

}  // namespace

TEST_CASE("Stages allocate what is predicted, to the byte", "[runtime][stage][memory]") {
  for (const std::string other : {"--batch 47 ", "--batch 160 --optimizer adam "}) {  // 6 ... 6 5 samples; 20 each
    for (const int gpus : {1, 2, 4}) {
      for (const std::string& flags : every_schedule(gpus, 8)) check(other + flags);
      for (const std::string& flags : every_schedule(gpus, 8, true)) check(other + flags);
    }
  }
}

TEST_CASE("The counter of the test sees every tensor", "[runtime][stage][memory]") {
  const CountedMemory memory;
  const at::Tensor small = at::empty({3}), large = at::empty({200});
  CHECK(memory.bytes() == 512 + 1024);
}
