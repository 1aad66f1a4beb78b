#include "sim/predict/step_bound.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <random>

#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/step_alone.hpp"
#include "sim/spec/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

StepBound bound_of(const std::string& words, LayerFamilies* families = nullptr) {
  return StepBounds(families).of(spec(words));
}

/// At least what is said, never more than the prediction. False where the words are refused.
bool holds(const std::string& words, LayerFamilies* families) {
  try {
    const RunSpec asked = spec(words);
    const RunResult run = predict_step_alone(asked, families, std::numeric_limits<std::int64_t>::max());
    const StepBound bound = StepBounds(families).of(asked);
    const ReplicaBound replica = bound_of_first_replica(run.spec, families);
    INFO(words);
    CHECK(bound.compute_ns <= bound.step_ns);
    CHECK(static_cast<double>(bound.step_ns) / 1e6 <= run.step_time.median_ms);
    CHECK(replica.compute_ns <= replica.without_host_ns);
    CHECK(replica.without_host_ns <= replica.step_ns);
    CHECK(static_cast<double>(replica.step_ns) / 1e6 <= run.step_time.median_ms);
    CHECK(least_memory_bytes(asked) <= *std::max_element(run.peak_memory_bytes.begin(), run.peak_memory_bytes.end()));
    return true;
  } catch (const InputError&) {
    return false;
  }
}

std::string word(const char* name, std::int64_t value) {
  return " --" + std::string(name) + " " + std::to_string(value);
}

}  // namespace

TEST_CASE("3 GPUs, 4 micro-batches: the last GPU fills 2 ms, works 12 ms, and 4 ms drain below it") {
  const StepBound bound = bound_of("--gpus 3 --microbatches 4 --schedule 1f1b --tf 1 --tb 2");
  CHECK(bound.compute_ns == 12'000'000);
  CHECK(bound.step_ns == 18'000'000);
  CHECK(predict(spec("--gpus 3 --microbatches 4 --schedule 1f1b --tf 1 --tb 2"), nullptr).step_time.median_ms == 18);
}

TEST_CASE("split backwards count the fill, naive orders everything, overlapping steps the compute alone") {
  CHECK(bound_of("--gpus 3 --microbatches 4 --schedule zb-h1 --tf 1 --tb 1 --tw 1").step_ns == 14'000'000);
  CHECK(bound_of("--gpus 3 --microbatches 4 --schedule naive --tf 1 --tb 2").step_ns == 36'000'000);
  CHECK(bound_of("--gpus 3 --microbatches 8 --schedule zb-h2 --tf 1 --tb 1 --tw 1").step_ns == 24'000'000);
  CHECK(bound_of("--gpus 3 --microbatches 4 --schedule 1f1b --recompute 1 --tf 1 --tb 2").compute_ns == 16'000'000);
  CHECK(bound_of("--gpus 3 --strategy ddp --tf 1 --tb 2").step_ns == 0);
  CHECK(bound_of("--gpus 3 --microbatches 4 --schedule auto --tf 1 --tb 2").step_ns == 0);
}

TEST_CASE("pieces that two configurations have in common are priced once") {
  const CostProfile profile = tiny_profile();
  LayerFamilies families(profile);
  StepBounds bounds(&families);
  const RunSpec copy = spec("--gpus 2 --depth 2 --dim 64 --batch 256 --microbatches 4 --schedule 1f1b");
  const RunSpec nccl = spec("--gpus 2 --depth 2 --dim 64 --batch 256 --microbatches 4 --schedule gpipe --recompute 1");
  bounds.will_ask(copy);
  bounds.will_ask(nccl);
  const StepBound of_copy = bounds.of(copy), of_nccl = bounds.of(nccl);
  // Of each of 2 stages: forward, backward that adds to gradients or not, optimizer.
  CHECK(bounds.priced_pieces() == 8);
  // And the same as each alone.
  CHECK(of_copy.step_ns == StepBounds(&families).of(copy).step_ns);
  CHECK(of_nccl.step_ns == StepBounds(&families).of(nccl).step_ns);
  // This profile has no input gradient alone (for weight gradients there is a substitute, 4 pieces more): what needs it
  // has no least step, what does not keeps its own.
  CHECK(bounds.of(spec("--gpus 2 --depth 2 --dim 64 --batch 256 --microbatches 4 --schedule zb-h1")).step_ns == 0);
  CHECK(bounds.priced_pieces() == 12);
  CHECK(bounds.of(copy).step_ns == of_copy.step_ns);
}

TEST_CASE("named orders begin with a forward of the GPU's first stage, whole backwards end with that of it") {
  for (const Schedule& schedule : schedules()) {
    for (std::int32_t workers = 1; workers <= 5; ++workers) {
      for (std::int32_t microbatches = 1; microbatches <= 12; ++microbatches) {
        for (std::int32_t chunks = schedule.least_chunks; chunks <= std::min(schedule.most_chunks, 4); ++chunks) {
          const ScheduleShape shape{workers, chunks, microbatches};
          if (!schedule.takes(shape)) continue;
          for (std::int32_t w = 0; w < workers; ++w) {
            const std::vector<Operation> order = schedule.order(shape, w);
            INFO(schedule.name << ", " << workers << " GPUs, " << chunks << " chunks, " << microbatches);
            CHECK(order.front().kind == OperationKind::forward);
            CHECK(order.front().stage == w);
            if (schedule.splits_backward) continue;
            CHECK(order.back().kind == OperationKind::backward);
            CHECK(order.back().stage == w);
          }
        }
      }
    }
  }
}

TEST_CASE("no prediction is below its bound: textbook costs of random stages") {
  std::mt19937 random(7);
  const auto one_of = [&](std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random() % (to - from + 1));
  };
  int held = 0;
  for (int i = 0; i < 400; ++i) {
    const Schedule& schedule = schedules()[random() % schedules().size()];
    const std::int64_t gpus = one_of(1, 5), chunks = one_of(schedule.least_chunks, std::min(schedule.most_chunks, 3));
    const auto times = [&] {
      std::string text;
      for (std::int64_t s = 0; s < gpus * chunks; ++s) text += (s ? "," : "") + std::to_string(one_of(1, 9));
      return text;
    };
    std::string words = "--schedule " + std::string(schedule.name) + word("gpus", gpus) + word("chunks", chunks) +
                        word("microbatches", one_of(1, 9)) + word("accum", one_of(1, 2)) + " --tf " + times() +
                        " --tb " + times() + word("tcomm", one_of(0, 2));
    if (random() % 2) words += " --tw " + times();
    if (random() % 3 == 0) words += " --recompute 1";
    held += holds(words, nullptr) ? 1 : 0;
  }
  CHECK(held > 150);
}

TEST_CASE("no prediction is below its bound: a bundled profile") {
  const CostProfile profile = load_profile(PDL_SOURCE_DIR "/data/h200x4/profile.json");
  LayerFamilies families(profile);
  std::mt19937 random(11);
  const auto one_of = [&](std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random() % (to - from + 1));
  };
  int held = 0;
  for (int i = 0; i < 60; ++i) {
    const Schedule& schedule = schedules()[random() % schedules().size()];
    std::string words = word("gpus", one_of(1, 4)) + word("depth", one_of(1, 12)) + word("dim", 512 * one_of(1, 8)) +
                        word("batch", one_of(1, 600)) + word("microbatches", one_of(1, 9));
    const std::int64_t kind = one_of(0, 6);
    if (kind < 4) words += " --schedule " + std::string(schedule.name);
    if (kind == 4) words += " --strategy ddp";
    if (kind == 5) words += " --strategy mp";
    if (kind == 6) words += " --schedule gpipe --workers one";
    if (random() % 4 == 0) words += " --recompute 1";
    if (random() % 4 == 0) words += " --optimizer adam";
    if (random() % 4 == 0) words += " --transport nccl";
    if (random() % 4 == 0) words += " --accum 2";
    held += holds(words, &families) ? 1 : 0;
  }
  CHECK(held > 15);
}

TEST_CASE("no prediction is below its bounds: replicas, all programs, number formats and rounds") {
  const CostProfile profile = load_profile(PDL_SOURCE_DIR "/data/h200x4/profile.json");
  LayerFamilies families(profile);
  std::mt19937 random(13);
  const auto one_of = [&](std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random() % (to - from + 1));
  };
  constexpr std::array kDtypes = {"fp32", "tf32", "amp-fp16", "amp-bf16"};
  int held = 0;
  for (int i = 0; i < 150; ++i) {
    const Schedule& schedule = schedules()[random() % schedules().size()];
    const std::int64_t replicas = one_of(2, 5), workers = one_of(1, 3), kind = one_of(0, 3);
    std::string words = word("depth", one_of(1, 9)) + word("dim", 256 * one_of(1, 20)) +
                        word("batch", replicas * one_of(1, 300)) + word("microbatches", one_of(1, 6)) + " --dtype " +
                        kDtypes[random() % (kind < 2 ? 2 : kDtypes.size())];
    if (kind < 2)
      words += word("gpus", replicas * workers) + word("pp", workers) + " --schedule " + std::string(schedule.name);
    if (kind == 2) words += word("gpus", replicas) + " --strategy ddp";
    if (kind == 3) words += word("gpus", replicas) + " --strategy dp";
    if (kind == 2 && random() % 2) words += " --bucket-views 1";
    if (random() % 4 == 0) words += " --recompute 1";
    if (random() % 4 == 0) words += " --optimizer adam";
    if (random() % 4 == 0) words += " --transport nccl";
    if (random() % 3 == 0) words += " --accum 2";
    if (random() % 6 == 0) words += " --straggler 1:3";
    if (random() % 6 == 0) words += " --delay-ms 1";
    held += holds(words, &families) ? 1 : 0;
  }
  CHECK(held > 60);
}

TEST_CASE(
    "no prediction is below its bound: pipelines under autocast that are run again, and a first layer's ReLU alone") {
  const CostProfile profile = load_profile(PDL_SOURCE_DIR "/data/h200x4/profile.json");
  LayerFamilies families(profile);
  for (const char* words :
       {"--gpus 2 --depth 16 --dim 8192 --batch 16384 --microbatches 8 --schedule 1f1b --recompute 1 "
        "--dtype amp-bf16",
        "--gpus 2 --depth 4 --dim 4096 --batch 122 --microbatches 5 --schedule zb-h1 --dtype tf32"})
    CHECK(holds(words, &families));
}

TEST_CASE("the bound of a replica: where nothing runs beside anything, the step itself") {
  const std::string words = "--gpus 4 --pp 2 --microbatches 4 --schedule 1f1b --tf 1 --tb 2 --tcomm 0";
  CHECK(bound_of_first_replica(spec(words), nullptr).step_ns == 15'000'000);
  CHECK(predict(spec(words), nullptr).step_time.median_ms == 15);
  const CostProfile profile = load_profile(PDL_SOURCE_DIR "/data/h200x4/profile.json");
  LayerFamilies families(profile);
  const RunSpec ddp = spec("--gpus 3 --strategy ddp --depth 2 --dim 1024 --batch 255");
  const ReplicaBound bound = bound_of_first_replica(ddp, &families);
  CHECK(bound.step_ns > bound.compute_ns);
  CHECK(static_cast<double>(bound.step_ns) / 1e6 <= predict(ddp, &profile).step_time.median_ms);
}
