// The memory of a process of torch.distributed.pipelining, in tensors of a stage's micro-batch (A) and parameters (P).
// What 216 GPUs have allocated is held against this by docs/accuracy.md.
#include "sim/memory/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kRows = 128, kWidth = 64;
constexpr std::int64_t kA = kRows * kWidth * 4;                     // an activation of a micro-batch
constexpr std::int64_t kWeight = kWidth * kWidth * 4, kBias = 512;  // as allocated
constexpr std::int64_t kP = kWeight + kBias;                        // of a layer

std::string flags(const std::string& schedule, int depth) {
  return "--program pytorch --gpus 2 --dim 64 --microbatches 4 --batch 512 --depth " + std::to_string(depth) +
         " --schedule " + schedule;
}

std::vector<std::int64_t> peaks(const std::string& schedule, int depth) {
  return predict_memory_bytes(make_plan(spec(flags(schedule, depth))), {});
}

}  // namespace

TEST_CASE("ScheduleGPipe: buffers for every micro-batch, all activations, gradients of the first backward") {
  // One layer a stage. GPU 0: parameters (P), the batch (4 A), a buffer of a gradient for each micro-batch (4 A), 4
  // results; in the first backward a gradient between ReLU and product (A), then the gradients (P), while the result is
  // there to its end.
  const std::vector<std::int64_t> bytes = peaks("gpipe", 2);
  CHECK(bytes[0] == kP + 4 * kA + 4 * kA + 4 * kA + kA + kP);
}

TEST_CASE("what is allocated comes and goes in every schedule, and never falls below nothing") {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "looped-bfs", "interleaved-zb", "zb-v", "dualpipe-v"}) {
    const Plan plan = make_plan(spec(flags(schedule, 8)));
    CAPTURE(schedule);
    const std::vector<GpuMemory> memory = replay_memory(plan, {});
    REQUIRE(memory.size() == 2);
    const std::vector<std::int64_t> peak = predict_memory_bytes(plan, {});
    for (std::size_t g = 0; g < memory.size(); ++g) {
      CHECK(memory[g].peak_bytes == peak[g]);
      BytesByCategory now = memory[g].at_start;
      for (const MemoryChange& change : memory[g].changes) {
        auto& of_category = now[static_cast<std::size_t>(change.category)];
        of_category += change.bytes;
        CHECK(of_category >= 0);
      }
      // At the end of a step all is as between steps, but for the gradients, which the next zero_grad lets go.
      now[static_cast<std::size_t>(MemoryCategory::gradients)] = 0;
      CHECK(now == memory[g].at_start);
    }
  }
}

TEST_CASE("a split backward keeps the gradients of its products, and those of its input to the end of the step") {
  // The same pipeline in a V of four stages, with whole backwards (dualpipe-v has some) and split ones alone.
  CHECK(peaks("zb-v", 8)[1] > peaks("1f1b", 8)[1]);
  const Plan plan = make_plan(spec(flags("zb-v", 8)));
  const GpuMemory memory = replay_memory(plan, {})[1];
  std::int64_t freed_at_end = 0;
  for (const MemoryChange& change : memory.changes) {
    if (plan.graph.tasks[change.task].kind == TaskKind::optimizer && change.category == MemoryCategory::activations)
      freed_at_end -= change.bytes;
  }
  CHECK(freed_at_end == 4 * kA);  // of stage 1, whose gradients are sent; those of stage 2 stay in the same process
}

namespace {

/// Of a category in the first weight half of stage 1: how far above its beginning it is at most, and at the end.
std::pair<std::int64_t, std::int64_t> of_weight_half(const GpuMemory& memory, const Plan& plan,
                                                     MemoryCategory category) {
  std::int64_t now = 0, most = 0;
  std::int32_t microbatch = -1;
  for (const MemoryChange& change : memory.changes) {
    const Task& task = plan.graph.tasks[change.task];
    if (task.kind != TaskKind::backward_weight || task.stage != 1 || change.category != category) continue;
    if (microbatch >= 0 && task.microbatch != microbatch) break;
    microbatch = task.microbatch;
    now += change.bytes;
    most = std::max(most, now);
  }
  return {most, now};
}

}  // namespace

// Two layers a stage: a copy of the first's gradient; the gradient goes, a copy of the second's comes, the first copy
// and the first layer's result go; both of the second go.
TEST_CASE("a weight half copies the gradient of each product, and lets go what the input half has kept") {
  const Plan plan = make_plan(spec(flags("zb-v", 8)));
  const GpuMemory memory = replay_memory(plan, {})[1];
  const auto [most, end] = of_weight_half(memory, plan, MemoryCategory::activations);
  CHECK(most == kA);
  CHECK(end == -3 * kA);  // two gradients of products, and the result of the first layer
}

// Of a stage layer_norm, linear, layer_norm, whose last gradient arrives in a buffer.
TEST_CASE("a weight half copies the gradients of layer norms too, which the input half has kept") {
  const TemporaryFolder folder;
  std::string layers;
  for (int stage = 0; stage < 4; ++stage) {
    for (const char* layer :
         {R"({"kind": "layer_norm", "features": 64},)", R"({"kind": "linear_relu", "in": 64, "out": 64},)",
          R"({"kind": "layer_norm", "features": 64},)"})
      layers += layer;
  }
  layers.pop_back();
  folder.write("norms.json", R"({"layers": [)" + layers + "]}");
  const Plan plan =
      make_plan(spec("--program pytorch --gpus 2 --microbatches 4 --batch 512 --schedule interleaved-zb --model " +
                     (folder / "norms.json")));
  const auto [most, end] = of_weight_half(replay_memory(plan, {})[1], plan, MemoryCategory::activations);
  CHECK(most == kA);
  // The gradients of the first norm and of the product, the results of all three, two statistics of each norm.
  CHECK(end == -2 * kA - 3 * kA - 2 * 2 * 512);
}

TEST_CASE("a weight half sums biases by parts, as a whole backward does") {
  const Plan plan =
      make_plan(spec("--program pytorch --gpus 2 --dim 2048 --microbatches 4 --batch 16384 --depth 8 --schedule zb-v"));
  const GpuMemory memory = replay_memory(plan, {.multiprocessors = 132})[1];
  CHECK(of_weight_half(memory, plan, MemoryCategory::other).first == std::int64_t{64} << 20);  // twice 4096 x 2048
}

TEST_CASE("the last stage's result goes with its loss, in the input half") {
  const Plan plan = make_plan(spec(flags("zb-v", 8)));
  const GpuMemory memory = replay_memory(plan, {})[0];
  std::int64_t input = 0, weight = 0;
  for (const MemoryChange& change : memory.changes) {
    const Task& task = plan.graph.tasks[change.task];
    if (task.stage != 3 || task.microbatch != 0 || change.category != MemoryCategory::activations) continue;
    if (task.kind == TaskKind::backward_input) input += change.bytes;
    if (task.kind == TaskKind::backward_weight) weight += change.bytes;
  }
  CHECK(input == 2 * kA + kA - kA);  // gradients of two products and of the input come, the result goes
  CHECK(weight == -3 * kA);
}

TEST_CASE("AMP: halves of activations and messages, casts of parameters to the end of the round, the output in fp32") {
  // One layer a stage, gpipe. GPU 0: parameters, the batch in fp32 (4 A), a gradient's buffer for each micro-batch
  // (4 A / 2), casts of weight and bias, the half copy of each input and each result (4 A); in the first backward a
  // gradient between ReLU and product (A / 2), then gradients in half precision.
  const auto amp = [](const std::string& schedule, int depth) {
    return predict_memory_bytes(make_plan(spec(flags(schedule, depth) + " --dtype amp-bf16")), {});
  };
  constexpr std::int64_t kHalf = kA / 2, kCasts = kWeight / 2 + 512;
  const std::vector<std::int64_t> bytes = amp("gpipe", 2);
  CHECK(bytes[0] == kP + 4 * kA + 4 * kHalf + kCasts + 8 * kHalf + kHalf + kWeight / 2 + kBias);
}

TEST_CASE("AMP: what is allocated comes and goes in every schedule, in rounds too, and never falls below nothing") {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "looped-bfs", "interleaved-zb", "zb-v", "dualpipe-v"}) {
    for (const char* more : {" --dtype amp-bf16", " --dtype amp-fp16 --accum 2", " --scale-grads 1"}) {
      const Plan plan = make_plan(spec(flags(schedule, 8) + more));
      CAPTURE(schedule, more);
      for (const GpuMemory& memory : replay_memory(plan, {})) {
        BytesByCategory now = memory.at_start;
        for (const MemoryChange& change : memory.changes) {
          auto& of_category = now[static_cast<std::size_t>(change.category)];
          of_category += change.bytes;
          CHECK(of_category >= 0);
        }
        now[static_cast<std::size_t>(MemoryCategory::gradients)] = 0;
        CHECK(now == memory.at_start);
      }
    }
  }
}

TEST_CASE("replicas: DDP's buckets beside what a pipeline without replicas needs") {
  const std::string two = "--program pytorch --dim 512 --microbatches 4 --depth 4 --schedule 1f1b";
  const std::vector<GpuMemory> alone = replay_memory(make_plan(spec(two + " --gpus 2 --batch 64")), {});
  const std::vector<GpuMemory> replicas = replay_memory(make_plan(spec(two + " --gpus 4 --dp 2 --batch 128")), {});
  REQUIRE(replicas.size() == 4);
  constexpr auto kBuckets = static_cast<std::size_t>(MemoryCategory::buckets);
  for (std::size_t g = 0; g < 4; ++g) {
    CHECK(replicas[g].at_start[kBuckets] == 2 * (512 * 512 + 512) * 4);
    // Parts of a backward need what a whole one does.
    CHECK(replicas[g].peak_bytes == alone[g % 2].peak_bytes + replicas[g].at_start[kBuckets]);
  }
}
