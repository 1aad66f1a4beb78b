#include <numeric>

#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("layers, parameters and samples add up, whatever does not divide") {
  for (const auto& [gpus, depth, batch, microbatches] :
       {std::tuple{4, 30, 64, 8}, {8, 40, 10, 4}, {16, 80, 17, 8}, {7, 7, 1, 1}, {3, 11, 5, 8}}) {
    const Plan plan =
        make_plan(spec("--gpus " + std::to_string(gpus) + " --depth " + std::to_string(depth) + " --dim 64 --batch " +
                       std::to_string(batch) + " --microbatches " + std::to_string(microbatches)));
    std::int64_t layers = 0, sum_parameters = 0;
    for (const Stage& stage : plan.stages) {
      CHECK(stage.first_layer == layers);
      layers += stage.layer_count;
      sum_parameters += parameters(plan.spec.model, stage.first_layer, stage.layer_count);
    }
    CHECK(layers == depth);
    CHECK(sum_parameters == parameters(plan.spec.model));
    CHECK(std::accumulate(plan.microbatch_rows.begin(), plan.microbatch_rows.end(), std::int64_t{0}) == batch);
  }
}

TEST_CASE("stages go to GPUs in a loop or in a v, replica after replica") {
  const auto gpus = [](const std::string& flags) {
    std::string text;
    const std::vector<Stage> stages = make_plan(spec("--depth 16 --dim 64 --batch 64 " + flags)).stages;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const char* before = s == 0 ? "" : is_first_stage(stages, s) ? " | " : is_local_boundary(stages, s) ? "=" : "-";
      text += before + std::to_string(only_worker(stages[s]));
    }
    return text;
  };
  CHECK(gpus("--gpus 4") == "0-1-2-3");
  CHECK(gpus("--gpus 4 --dp 2") == "0-1 | 2-3");
  CHECK(gpus("--gpus 4 --schedule interleaved --chunks 2") == "0-1-2-3-0-1-2-3");
  CHECK(gpus("--gpus 4 --schedule zb-v") == "0-1-2-3=3-2-1-0");
  CHECK(gpus("--gpus 4 --dp 2 --schedule zb-v") == "0-1=1-0 | 2-3=3-2");
  CHECK(gpus("--gpus 4 --strategy ddp") == "0 | 1 | 2 | 3");
}

TEST_CASE("a stage of several workers has no only one") {
  CHECK(only_worker({.workers = {3}}) == 3);
  CHECK_THROWS_AS(only_worker({.workers = {2, 3}}), std::logic_error);
}
