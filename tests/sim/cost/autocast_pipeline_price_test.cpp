// Pipelines of pdl-run under autocast: LibTorch's kernels have their price, as autograd runs them; parameters are cast
// once a step, behind the optimizer.
#include "sim/cost/price.hpp"
#include "sim/predict/predict.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kWidth = 64, kRows = 32;
constexpr std::int64_t kHalfActivation = kRows * kWidth * 2;  // bytes

MeasuredKey by_autograd(const std::string& operation, bool input_gradient = true, bool accumulate = false) {
  MeasuredKey key = ProfileBuilder::layer_key(operation, kWidth, kWidth);
  key.implementation = "autograd";
  key.dtype = Dtype::amp_bf16;
  key.input_gradient = input_gradient;
  key.accumulate = accumulate;
  return key;
}

/// Of a layer with 32 rows: forward 32 us, of which 12 are casts of weight and bias; backward 60, or 36 without an
/// input gradient; where it adds to gradients 64 and 40. An activation takes a message 3 us in half precision, 5 in
/// fp32.
CostProfile profile() {
  ProfileBuilder b;
  const char* elementwise = "at::native::vectorized_elementwise_kernel";
  b.add(by_autograd("forward"), {{kRows, 32}}).points.front().kernels = {
      {elementwise, 4000, 8, 16, 1},
      {elementwise, 2000, 1, 16, 1},
      {"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT", 8000, 132, 1, 1},
      {elementwise, 2000, 8, 16, 1}};
  for (const bool accumulate : {false, true}) {
    const double adds_us = accumulate ? 4 : 0;
    b.add(by_autograd("backward", true, accumulate), {{kRows, 60 + adds_us}});
    b.add(by_autograd("backward", false, accumulate), {{kRows, 36 + adds_us}});
  }
  MeasuredKey loss;
  loss.probe = Probe::loss;
  loss.implementation = "autograd";
  loss.dtype = Dtype::amp_bf16;
  b.add(loss, {{kRows * kWidth, 7}});
  b.optimizer("sgd", {{2 * (kWidth * kWidth + kWidth), 20}});
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}})
    b.transfer("copy", from, to, {{kHalfActivation, 3}, {2 * kHalfActivation, 5}});
  b.quiet_host();
  return b.done();
}

/// Two layers a stage, four micro-batches of 32 samples.
Plan plan_of(const std::string& words) {
  return make_plan(spec("--gpus 2 --depth 4 --dim 64 --batch 128 --microbatches 4 --dtype amp-bf16 " + words));
}

/// Microseconds of the device, of all works of a kind and a stage, in the order in which they were added.
std::vector<double> device_us(const Plan& plan, const PricedWork& priced, TaskKind kind, int stage) {
  std::vector<double> all;
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    const Work& work = plan.graph.works[w];
    if (work.kind == kind && (!is_compute(kind) || work.first_layer == 2 * stage))
      all.push_back(static_cast<double>(priced.costs[w].device_ns) / 1000);
  }
  return all;
}

using Times = std::vector<double>;

}  // namespace

TEST_CASE("a pipeline under autocast casts its parameters behind the optimizer, not in its forwards") {
  const Plan plan = plan_of("--schedule 1f1b");
  const CostProfile measured = profile();
  const PricedWork priced = price_by_profile(plan, measured);
  for (const int stage : {0, 1}) CHECK(device_us(plan, priced, TaskKind::forward, stage) == Times{2 * 20.});
  CHECK(device_us(plan, priced, TaskKind::backward, 0) == Times{60 + 36, 64 + 40});  // no gradient of the batch
  CHECK(device_us(plan, priced, TaskKind::backward, 1) == Times{7 + 2 * 60, 7 + 2 * 64});
  for (const Work& work : plan.graph.works) {
    if (work.kind == TaskKind::optimizer) {
      CHECK(work.implementation == Implementation::pipeline);
    } else if (is_compute(work.kind)) {
      CHECK(work.implementation == Implementation::autograd);
    }
  }
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w)
    if (plan.graph.works[w].kind == TaskKind::optimizer) CHECK(priced.costs[w].device_ns == 20'000 + 2 * 12'000);
}

TEST_CASE("a stage that is run again under autocast takes what its forward does, of all its layers") {
  const Plan plan = plan_of("--schedule 1f1b --recompute 1");
  const CostProfile measured = profile();
  const PricedWork priced = price_by_profile(plan, measured);
  for (const int stage : {0, 1}) CHECK(device_us(plan, priced, TaskKind::recompute, stage) == Times{2 * 20.});
}

TEST_CASE("messages between stages under autocast are in the type that autocast leaves") {
  const Plan plan = plan_of("--schedule 1f1b");
  const CostProfile measured = profile();
  const PricedWork priced = price_by_profile(plan, measured);
  for (const TaskKind kind : {TaskKind::send_forward, TaskKind::send_backward})
    CHECK(device_us(plan, priced, kind, 0) == Times{3});
  for (const Work& work : plan.graph.works)
    if (is_pipeline_transfer(work.kind)) CHECK(work.bytes == kHalfActivation);
}

TEST_CASE("the halves of a backward under autocast add up to it, but for the gradient of what goes into the model") {
  const Plan plan = plan_of("--schedule zb-h1");
  const CostProfile measured = profile();
  const PricedWork priced = price_by_profile(plan, measured);
  CHECK(device_us(plan, priced, TaskKind::backward_weight, 0) == Times{2 * 36, 2 * 40});
  CHECK(device_us(plan, priced, TaskKind::backward_input, 0) == Times{60 - 36});
  CHECK(device_us(plan, priced, TaskKind::backward_input, 1) == Times{7 + 2 * (60 - 36)});
}

//   GPU 0  F0 F1 F2 F3 .  .  .  .  .  .    B0 B1 B2 B3 o     forwards 40, backwards 96 and 104 (first: 127 and 135 of
//   GPU 1  .  F0 F1 F2 F3 B0 B1 B2 B3 o                      GPU 1), messages 3, optimizer with its casts 44
TEST_CASE("a step of GPipe under autocast, to the microsecond") {
  const CostProfile measured = profile();
  const RunSpec of = spec("--gpus 2 --depth 4 --dim 64 --batch 128 --microbatches 4 --dtype amp-bf16 --schedule gpipe");
  const RunResult run = predict(of, &measured, {});
  // The last backward of GPU 1 ends at 40 + 3 + 4 * 40 + 127 + 3 * 135; B3 of GPU 0, 104, comes 3 behind it.
  CHECK(run.step_time.median_ms * 1000 == Approx(40 + 3 + 4 * 40 + 127 + 3 * 135 + 3 + 104 + 44));
}
