// The memory of a pipeline of pdl-run under autocast, in tensors of a micro-batch in half precision (A) and in what
// layers have. That LibTorch allocates as much: tests/runtime/model/stage_memory_test.cpp.
#include "sim/memory/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kRows = 128, kWidth = 64;
constexpr std::int64_t kA = kRows * kWidth * 2;
constexpr std::int64_t kWeight = kWidth * kWidth * 4, kBias = 512;  // as allocated
constexpr std::int64_t kHalf = kWeight / 2 + 512;                   // copies of a layer's parameters
constexpr std::int64_t kOnes = kRows * 4;
constexpr std::int64_t kAdded = kWeight / 2 + kWeight;  // gradient of a weight: in half precision, and cast

std::vector<GpuMemory> memory_of(const std::string& words) {
  return replay_memory(
      make_plan(spec("--gpus 2 --dim 64 --microbatches 4 --batch 512 --depth 4 --dtype amp-bf16 " + words)), {});
}

}  // namespace

TEST_CASE("a stage under autocast: results and gradients in half precision, parameters twice") {
  const std::vector<GpuMemory> memory = memory_of("--schedule gpipe");
  const std::int64_t parameters = 2 * 2 * (kWeight + kBias);  // and their gradients
  // Of each micro-batch the cast of its input, two results, the gradient that arrives; between the layers a gradient.
  const std::int64_t first = parameters + 2 * kHalf + 4 * 2 * kA + 4 * 4 * kA + kA + kOnes;
  CHECK(total_bytes(memory[0].at_start) == first);
  CHECK(memory[0].peak_bytes == first + kAdded);
  // What arrives and the gradient that goes back, two results; two gradients. Targets in fp32, and the losses.
  const std::int64_t last = parameters + 2 * kHalf + 4 * 4 * kA + 2 * kA + kOnes + 4 * 2 * kA + 512;
  CHECK(total_bytes(memory[1].at_start) == last);
  CHECK(memory[1].peak_bytes == last + std::max(kAdded, 2 * kA));  // the error in fp32
}

TEST_CASE("a stage under autocast with split backwards keeps its gradients, in half precision") {
  const std::vector<GpuMemory> memory = memory_of("--schedule zb-h1");
  const std::int64_t held = memory[1].at_start[static_cast<std::size_t>(MemoryCategory::activations)];
  CHECK(held % (6 * kA) == 0);  // a slot: input and its gradient, two results and their gradients
}

TEST_CASE("a pipeline under autocast has no workspaces of products in fp32, nor of a second stream") {
  const WorkspaceBytes workspace{.pipeline = 100 << 20, .pipeline_split = 68 << 20, .autograd = 40 << 20};
  const Plan plan =
      make_plan(spec("--gpus 2 --depth 8 --dim 64 --batch 64 --microbatches 4 --schedule 1f1b --dtype amp-bf16"));
  CHECK(predict_memory_bytes(plan, workspace).front() - predict_memory_bytes(plan, {}).front() == 4 << 20);
}
