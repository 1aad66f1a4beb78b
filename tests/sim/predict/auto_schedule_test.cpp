// The search, by the whole prediction: never worse than the best named schedule, within the limit, the same every time.
#include "sim/predict/auto_schedule.hpp"

#include <algorithm>

#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

double step_ms(const std::string& words) {
  return predict(spec(words), nullptr).step_time.median_ms;
}

double best_named_ms(const std::string& words) {
  double best = 1e30;
  for (const Schedule& schedule : schedules()) {
    try {
      best = std::min(best, step_ms(words + " --schedule " + std::string(schedule.name)));
    } catch (const InputError&) {  // not for this number of micro-batches or layers
    }
  }
  return best;
}

}  // namespace

TEST_CASE("auto is never worse than the best named schedule") {
  for (const std::string gpus : {"1", "3", "4"}) {
    for (const std::string microbatches : {"1", "8"}) {
      for (const std::string costs : {"--tf 1 --tb 2", "--tf 2 --tb 2.2 --tw 1.1 --tcomm 0.1"}) {
        const std::string words = "--depth 16 --gpus " + gpus + " --microbatches " + microbatches + " " + costs;
        INFO(words);
        for (const std::string steps : {"", " --overlap-steps 0", " --overlap-steps 1"}) {
          CHECK(step_ms(words + steps + " --schedule auto") <= best_named_ms(words + steps) + 1e-9);
        }
      }
    }
  }
}

TEST_CASE("auto with a barrier finds the least makespan there is for equal F, I and W on 2 GPUs") {
  // Each GPU works M x 3; the second starts after one F of the first, or the first waits for it at the end: with two
  // chunks, down and up, half an F.
  CHECK(step_ms("--gpus 2 --chunks 2 --microbatches 8 --tf 0.5 --tb 0.5 --tw 0.5 --schedule auto --overlap-steps 0") ==
        Approx(24.5));
}

TEST_CASE("auto keeps to the stages that textbook costs are given for") {
  CHECK(predict(spec("--gpus 2 --depth 8 --microbatches 4 --tf 1 --tb 2 --schedule auto"), nullptr).stages.size() == 2);
  CHECK(predict(spec("--gpus 2 --depth 8 --chunks 3 --microbatches 4 --tf 1,1,2,2,1,1 --tb 2 --schedule auto"), nullptr)
            .stages.size() == 6);
}

TEST_CASE("auto is better than every named schedule where transfers are long: by its own orders") {
  const std::string words =
      "--gpus 3 --chunks 2 --microbatches 6 --tf 0.5 --tb 0.55 --tw 0.35 --tcomm 0.3 --overlap-steps 0";
  CHECK(best_named_ms(words) == Approx(20.8));  // looped-bfs
  CHECK(step_ms(words + " --schedule auto") < 18.5);
}

TEST_CASE("a run of auto comes back from its JSON, where torch.chunk makes fewer micro-batches too") {
  for (const std::string words :
       {"--gpus 2 --depth 4 --batch 5 --microbatches 4", "--gpus 2 --depth 4 --batch 8 --microbatches 4"}) {
    const RunResult run = predict(spec(words + " --dim 64 --schedule auto --tf 1 --tb 2"), nullptr);
    const RunResult again = run_from_json(nlohmann::json::parse(to_json(run).dump()), "run.json");
    REQUIRE(again.spec.schedule_file);
    CHECK(again.spec.schedule_file->order == run.spec.schedule_file->order);
    CHECK(steps_overlap(again.spec) == steps_overlap(run.spec));
  }
}

TEST_CASE("an order that was improved from dualpipe-v has no pairs left, and its CSV can be read") {
  const RunResult run = predict(spec("--gpus 2 --microbatches 12 --batch 12 --depth 4 --dim 1024 --overlap-steps 0 "
                                     "--tf 1 --tb 1 --tw 0.9 --tcomm 0.2 --schedule auto"),
                                nullptr);
  REQUIRE(run.spec.schedule_file);
  CHECK(parse_schedule_csv(to_csv(*run.spec.schedule_file), "auto.csv").order == run.spec.schedule_file->order);
}

TEST_CASE("auto keeps to the memory limit, or says that nothing does") {
  const std::string words = "--gpus 4 --depth 8 --microbatches 8 --tf 1 --tb 1 --tw 1 --schedule auto";
  const RunResult free = predict(spec(words), nullptr);
  const auto most = [](const RunResult& run) {
    return *std::max_element(run.peak_memory_bytes.begin(), run.peak_memory_bytes.end());
  };
  const RunResult limited = predict(spec(words), nullptr, {.memory_limit_bytes = most(free) - 1});
  CHECK(most(limited) < most(free));
  CHECK(limited.step_time.median_ms >= free.step_time.median_ms);
  CHECK_THROWS_WITH(predict(spec(words), nullptr, {.memory_limit_bytes = 1000}),
                    ContainsSubstring("out of memory: no schedule"));
}

TEST_CASE("auto finds the same order every time, and its CSV is that order") {
  const std::string words =
      "--gpus 3 --depth 6 --microbatches 6 --tf 1 --tb 1.1 --tw 0.7 --tcomm 0.1 --schedule auto --overlap-steps 0";
  const RunResult once = predict(spec(words), nullptr), twice = predict(spec(words), nullptr);
  REQUIRE(once.spec.schedule_file);
  CHECK(once.spec.schedule_file->order == twice.spec.schedule_file->order);
  const ScheduleFile again = parse_schedule_csv(to_csv(*once.spec.schedule_file), "auto.csv");
  CHECK(again.order == once.spec.schedule_file->order);
}
