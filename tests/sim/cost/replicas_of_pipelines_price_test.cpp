// Replicas of a pipeline whose stages copy their activations, with multiprocessors shared by compute and all-reduces.
#include <algorithm>

#include "sim/cost/price.hpp"
#include "sim/predict/predict.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

/// The tiny machine with 132 multiprocessors a GPU and all-reduces of 2 GPUs in 50 us.
CostProfile sharing_profile() {
  CostProfile profile = tiny_profile();
  profile.host_description.multiprocessors = 132;
  MeasuredKey key;
  key.probe = Probe::collective;
  key.operation = "all_reduce";
  key.transport = "nccl";
  key.ranks = 2;
  profile.curves.push_back({key, tiny_constant(50'000)});
  std::sort(profile.curves.begin(), profile.curves.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return profile;
}

}  // namespace

TEST_CASE("Copies between stages hold no multiprocessors beside the kernels of their GPU", "[data_parallel]") {
  const CostProfile profile = sharing_profile();
  for (const char* schedule : {"gpipe", "1f1b"}) {
    INFO(schedule);
    const Plan plan = make_plan(spec(
        "--gpus 4 --pp 2 --dp 2 --dim 64 --depth 4 --batch 512 --microbatches 8 --schedule " + std::string(schedule)));
    const PricedWork priced = price_by_profile(plan, profile);
    REQUIRE(priced.shared.count == 132);
    for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
      if (is_transfer(plan.graph.works[w].kind)) CHECK(priced.shared.kernels[w].empty());
      if (is_compute(plan.graph.works[w].kind)) CHECK_FALSE(priced.shared.kernels[w].empty());
    }
    // Blocks are not known here, so that nothing waits for a place: the times are those without sharing.
    CHECK(run_graph(plan.graph, priced.costs, {&priced.shared}) == run_graph(plan.graph, priced.costs));
  }
}
