// The clock of a whole step: bubbles let a card cool.
#include "sim/predict/at_power_limit.hpp"

#include <algorithm>
#include <utility>

#include "sim/predict/step_of_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

namespace pdl {
namespace {

constexpr double kLimit = 2e14;

/// Forward 1 ms, backward 2 ms of a micro-batch, nothing but layers, which have so many FLOP/s at full clock.
PricedWork priced(const Plan& plan, double flops_per_s) {
  PricedWork priced = price_plan(plan, nullptr);
  priced.power_limit = PowerLimit(kLimit, 0.25);
  for (const TaskCost& cost : priced.costs) {
    const auto ns = static_cast<double>(cost.device_ns);
    priced.limited.push_back({flops_per_s * ns * 1e-9, ns});
  }
  return priced;
}

Plan pipeline(const std::string& flags) {
  return make_plan(spec("--tf 1 --tb 2 " + flags));
}

// 0  F0 F1 .. .. B0B0 B1B1       6 ms of 9
// 1  .. F0 F1 B0B0 B1B1 ..
TEST_CASE("the mean of a step with its bubbles decides its clock", "[at_power_limit]") {
  const Plan plan = pipeline("--gpus 2 --depth 2 --batch 2 --microbatches 2 --schedule gpipe");
  CHECK(slowdown_of_layers(plan, priced(plan, 3e14)) == 1);  // 2e14 in the mean
  CHECK(slowdown_of_layers(plan, priced(plan, 4.5e14)) == PowerLimit(kLimit, 0.25).slowdown(3e14, 6.0 / 9));
  const Plan alone = pipeline("--gpus 1 --depth 1 --batch 1 --microbatches 1 --strategy single");
  CHECK(slowdown_of_layers(alone, priced(alone, 3e14)) == PowerLimit(kLimit, 0.25).slowdown(3e14, 1));
  CHECK(slowdown_of_layers(alone, priced(alone, 1.9e14)) == 1);
}

TEST_CASE("layers take longer at the power limit, and nothing else does", "[at_power_limit]") {
  const Plan plan = pipeline("--gpus 2 --depth 2 --batch 2 --microbatches 2 --schedule gpipe --tcomm 0.5");
  const PricedWork full = priced(plan, 3e14);
  PricedWork slow = full;
  for (std::size_t w = 0; w < slow.costs.size(); ++w) {
    if (!is_compute(plan.graph.works[w].kind)) slow.limited[w] = {};
    slow.shared.kernels.push_back({{0, slow.costs[w].device_ns / 4}, {0, slow.costs[w].device_ns / 4 * 3}});
  }
  slow_down_layers(slow, 1.25);
  for (std::size_t w = 0; w < slow.costs.size(); ++w) {
    const std::int64_t ns = full.costs[w].device_ns;
    const std::int64_t slower_ns = is_compute(plan.graph.works[w].kind) ? ns / 4 * 5 : ns;
    CHECK(slow.costs[w] == device_only(slower_ns));
    CHECK(slow.shared.kernels[w][0].device_ns + slow.shared.kernels[w][1].device_ns == slower_ns);
  }
  PricedWork same = full;
  slow_down_layers(same, 1);
  CHECK(same.costs == full.costs);
}

/// Of both layers of a model, forward and backward: what power its FLOPs draw over that of FLOPs in the probes.
std::pair<double, double> power_of(const std::vector<Layer>& layers, LayerFamilies& families) {
  RunSpec run = spec("--depth 2 --dim 4096 --batch 2048 --dtype tf32 --workers one");
  run.model.layers = layers;
  const Plan plan = make_plan(run);
  const PricedWork priced = price_plan(plan, &families);
  const auto power = [&](TaskKind kind, LayerOperation operation) {
    const auto& works = plan.graph.works;
    const auto work = std::find_if(works.begin(), works.end(), [&](const Work& w) { return w.kind == kind; });
    double in_probes = 0;
    for (std::size_t l = 0; l < layers.size(); ++l)
      in_probes += flops(layers[l], {operation, work->rows, Dtype::tf32, /*input_gradient=*/l > 0});
    return priced.limited[static_cast<std::size_t>(work - works.begin())].flops / in_probes;
  };
  return {power(TaskKind::forward, LayerOperation::forward), power(TaskKind::backward, LayerOperation::backward)};
}

// A forward multiplies its input, its gradients that of the result, and the weight's also the input. Of two layers the
// first has one product backward, the weight's, and the second two.
TEST_CASE("numbers without a ReLU behind them draw more power", "[at_power_limit]") {
  const CostProfile profile = load_profile(PDL_SOURCE_DIR "/data/h200x2/profile.json");
  LayerFamilies families(profile);
  const Layer relu = linear_relu(4096, 4096), plain = linear(4096, 4096);
  const auto [forward, backward] = power_of({plain, plain}, families);
  CHECK(forward == Approx(1.17));
  CHECK(backward == Approx(1.17));
  // Behind a ReLU: but for the data, which the first forward and the first weight's gradient read.
  const auto [forward_behind, backward_behind] = power_of({relu, relu}, families);
  CHECK(forward_behind == Approx((1.17 + 1) / 2));
  CHECK(backward_behind == Approx(((1.17 + 1) / 2 + 1 + 1) / 3));
}

TEST_CASE("without a power limit nothing slows down", "[at_power_limit]") {
  const Plan plan = pipeline("--gpus 2 --depth 2 --batch 2 --microbatches 2 --schedule gpipe");
  CHECK(slowdown_of_layers(plan, price_plan(plan, nullptr)) == 1);
}

}  // namespace
}  // namespace pdl
