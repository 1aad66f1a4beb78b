// What the stages of a plan allocate is what sim/memory/memory.cpp says that they do.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/model/layer_module.hpp"
#include "runtime/model/pipeline_stage.hpp"
#include "runtime/program/pipeline_program.hpp"
#include "sim/memory/allocated_tensors.hpp"
#include "sim/memory/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/counted_memory.hpp"
#include "tests/support/every_schedule.hpp"
#include "tests/support/layer_models.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/transformer_models.hpp"

using namespace pdl;

namespace {

std::int64_t allocated_by(const Plan& plan, int worker) {
  RuntimeOptions options;
  options.device = DeviceKind::cpu;
  const CountedMemory memory;
  std::vector<std::unique_ptr<PipelineStage>> stages;
  const PipelineStage* before = nullptr;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (only_worker(plan.stages[s]) != worker) continue;
    stages.push_back(std::make_unique<PipelineStage>(plan, static_cast<int>(s), at::kCPU, options, before));
    before = stages.back().get();
  }
  return memory.bytes();
}

/// From the first step on: what a layer takes for a moment is not there yet.
std::int64_t held_between_steps(const Plan& plan, int worker) {
  return total_bytes(replay_memory(plan, {})[static_cast<std::size_t>(worker)].at_start);
}

void check(const Plan& plan) {
  INFO(describe(plan.spec));
  for (int worker = 0; worker < static_cast<int>(plan.spec.gpus); ++worker) {
    INFO("worker " << worker);
    CHECK(allocated_by(plan, worker) == held_between_steps(plan, worker));
  }
}

const std::string kModel = "--dim 40 --depth 11 ";
const std::string kUnderAutocast = " --dtype amp-bf16";

}  // namespace

TEST_CASE("Stages allocate what is predicted, to the byte", "[runtime][stage][memory]") {
  for (const std::string other : {"--batch 47 ", "--batch 160 --optimizer adam "}) {  // 6 ... 6 5 samples; 20 each
    for (const int gpus : {1, 2, 4}) {
      for (const std::string& flags : every_schedule(gpus, 8)) check(make_plan(spec(kModel + other + flags)));
      for (const std::string& flags : every_schedule(gpus, 8, true)) check(make_plan(spec(kModel + other + flags)));
      for (const std::string& flags : every_schedule(gpus, 8))
        check(make_plan(spec(kModel + other + flags + kUnderAutocast + " --workers thread")));
    }
  }
}

TEST_CASE("Stages with layers of every kind allocate what is predicted, to the byte", "[runtime][stage][memory]") {
  for (const std::vector<Layer>& layers : mixed_layers(40)) {
    for (const bool recompute : {false, true}) {
      for (const std::string& flags : every_schedule(2, 8, recompute))
        for (const std::string& dtype : {std::string(), kUnderAutocast})
          check(make_plan(with_layers(spec(kModel + "--batch 47 --optimizer adam " + flags + dtype), layers)));
    }
  }
}

TEST_CASE("Stages of transformers allocate what is predicted, to the byte", "[runtime][stage][memory]") {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    rotary_tables(kTinyTokens, 8, at::kCPU, type);  // made once a process
  const std::string flags = "--gpus 2 --depth 4 --dim 64 --batch 15 --microbatches 4 --schedule ";  // 4 4 4 3 samples
  for (const Model& model : {tiny_gpt(), tiny_llama(), tiny_gpt(0, 10)}) {
    for (const std::string schedule : {"gpipe", "1f1b", "zb-h1", "zb-v", "gpipe --recompute 1", "1f1b --recompute 1"}) {
      for (const std::string optimizer : {"sgd", "adamw", "adamw-fused"})
        for (const std::string& dtype : {std::string(), kUnderAutocast})
          check(make_plan(with_model(spec(flags + schedule + " --optimizer " + optimizer + dtype), model)));
    }
  }
  for (const Model& model : {tiny_gpt(1), tiny_llama(1)}) {
    const std::string single = "--gpus 1 --strategy single --workers thread --depth 4 --dim 64 --batch 8 ";
    for (const std::string& dtype : {std::string(), kUnderAutocast})
      check(make_plan(with_model(spec(single + "--microbatches 2 --optimizer adamw" + dtype), model)));
  }
}

/// Of one GPU, whose peak no other worker is in.
TEST_CASE("A step of a pipeline under autocast needs what is predicted, to the byte", "[runtime][stage][memory]") {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // LayerNorm's backward on the CPU takes two rows a thread for a moment
  const std::string flags =
      "--gpus 1 --strategy single --workers thread --dim 256 --batch 256 --microbatches 4" + kUnderAutocast;
  const Layer linear = linear_relu(256, 256), norm = layer_of("layer_norm", {256}), gelu = layer_of("gelu", {256});
  for (const std::vector<Layer>& layers : {std::vector<Layer>(3, linear),
                                           {linear, norm, linear},
                                           {linear, gelu, norm},
                                           {linear_relu(256, 1024), linear_relu(1024, 256)}}) {
    const Plan plan = make_plan(with_layers(spec(flags + " --depth " + std::to_string(layers.size())), layers));
    INFO(describe(plan.spec));
    for (const Layer& layer : layers) UNSCOPED_INFO(to_text(layer));
    RuntimeOptions options;
    options.device = DeviceKind::cpu;
    CountedMemory memory;
    const auto program = make_pipeline_program(plan, options);
    program->step(nullptr);
    memory.begin_peak();
    program->step(nullptr);
    CHECK(memory.peak_bytes() == predict_memory_bytes(plan, {}).front());
  }
  at::set_num_threads(threads);
}

TEST_CASE("The counter of the test sees every tensor", "[runtime][stage][memory]") {
  const CountedMemory memory;
  const at::Tensor small = at::empty({3}), large = at::empty({200});
  CHECK(memory.bytes() == 512 + 1024);
}

// Source: c10/core/Allocator.h of PyTorch 2.11, raw_allocate and raw_deallocate.
TEST_CASE("What oneDNN takes by raw_allocate is there, aligned, and not counted in a peak",
          "[runtime][stage][memory]") {
  CountedMemory memory;
  c10::Allocator& allocator = *c10::GetAllocator(at::kCPU);
  REQUIRE(&allocator == &memory);
  memory.begin_peak();
  const at::Tensor before = at::ones({256});
  void* const scratch = allocator.raw_allocate(100000);
  REQUIRE(scratch != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(scratch) % 64 == 0);
  std::fill_n(static_cast<char*>(scratch), 100000, 'x');
  const at::Tensor within = at::ones({256});
  allocator.raw_deallocate(scratch);
  CHECK(memory.bytes() == 2 * 1024);
  CHECK(memory.peak_bytes() == 2 * 1024);
  CHECK(before.sum().item<float>() + within.sum().item<float>() == 512);
  {
    const at::Tensor more = at::empty({256});
  }
  CHECK(memory.bytes() == 2 * 1024);
  CHECK(memory.peak_bytes() == 3 * 1024);
  allocator.raw_deallocate(allocator.raw_allocate(0));
}

TEST_CASE("Blocks may be given back after the counter is gone, and those from before it within it",
          "[runtime][stage][memory]") {
  c10::Allocator& usual = *c10::GetAllocator(at::kCPU);
  void* const before = usual.raw_allocate(1000);
  at::Tensor tensor_before = at::ones({256}), tensor;
  void* raw = nullptr;
  {
    CountedMemory memory;
    memory.raw_deallocate(before);
    tensor_before.reset();
    CHECK(memory.bytes() == 0);
    raw = memory.raw_allocate(1000);
    tensor = at::ones({256});
  }
  CHECK(c10::GetAllocator(at::kCPU) == &usual);
  usual.raw_deallocate(raw);
  CHECK(tensor.sum().item<float>() == 256);
  tensor.reset();
  const CountedMemory next;
  CHECK(next.bytes() == 0);
}

TEST_CASE("oneDNN's own tensors come from the counter of the test where PyTorch has oneDNN",
          "[runtime][stage][memory]") {
  if (!at::hasMKLDNN()) {
    WARN("test skipped: PyTorch without oneDNN");
    return;
  }
  CountedMemory memory;
  const at::Tensor plain = at::ones({64, 64});
  memory.begin_peak();
  const at::Tensor back = plain.to_mkldnn().to_dense();  // in oneDNN's layout, by raw_allocate, and back
  CHECK(at::equal(plain, back));
  CHECK(memory.bytes() == 2 * 64 * 64 * 4);
  CHECK(memory.peak_bytes() == 2 * 64 * 64 * 4);
}
