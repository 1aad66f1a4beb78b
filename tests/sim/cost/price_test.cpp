#include "sim/cost/price.hpp"

#include <cmath>
#include <functional>
#include <optional>
#include <tuple>

#include "sim/io/error.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

namespace pdl {
namespace {

/// The cost of the only work of a plan with this kind (and flags).
TaskCost cost_of(const Plan& plan, const PricedWork& priced, const std::function<bool(const Work&)>& matches) {
  std::optional<TaskCost> found;
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    if (!matches(plan.graph.works[w])) continue;
    CHECK_FALSE(found.has_value());
    found = priced.costs[w];
  }
  REQUIRE(found.has_value());
  return *found;
}

/// Layers of width 64 at 16 rows: forward 10, backward 20 (first layer 12), accumulating 23 (14), us.
ProfileBuilder builder() {
  ProfileBuilder b;
  b.layer("forward", 64, {{16, 10}});
  for (const auto& [accumulate, input, us] :
       {std::tuple{false, true, 20}, {false, false, 12}, {true, true, 23}, {true, false, 14}}) {
    MeasuredKey key = ProfileBuilder::layer_key("backward", 64, 64);
    key.accumulate = accumulate;
    key.input_gradient = input;
    b.add(key, {{16, static_cast<double>(us)}});
  }
  b.loss({{16 * 64, 3}});
  b.optimizer("sgd", {{1000, 2}, {1000000, 2}});
  b.transfer("copy", 0, 1, {{1024, 5}, {1 << 20, 50}});
  b.transfer("copy", 1, 0, {{1024, 6}, {1 << 20, 60}});
  return b;
}

const std::string kTwoGpus = "--gpus 2 --depth 5 --dim 64 --batch 32 --microbatches 2 --schedule 1f1b ";

/// In a stage from the middle, 1 layer takes 26 us, 4 layers 80 (20 each): 18 for each further one. In the first stage
/// 1 layer takes 14, 4 layers 68 (17 each): 18 for each further one too. `rows_of_four`: of the stages of 4 layers;
/// those of 1 have 16.
CostProfile with_lengths(std::int64_t rows_of_four) {
  ProfileBuilder b = builder();
  for (const auto& [input, layers, us] : {std::tuple{true, 1, 26}, {true, 4, 20}, {false, 1, 14}, {false, 4, 17}}) {
    for (const bool accumulate : {false, true}) {
      MeasuredKey key = ProfileBuilder::layer_key("backward", 64, 64);
      key.accumulate = accumulate;
      key.input_gradient = input;
      key.layers = layers;
      b.add(key, {{layers == 1 ? 16 : rows_of_four, static_cast<double>(us)}});
    }
  }
  b.quiet_host();
  return b.done();
}

/// Of the stage that begins with that layer, where gradients are added, in stages of 3 and 2 layers.
double whole_backward_us(const CostProfile& profile, std::int32_t first_layer) {
  const Plan plan = make_plan(spec(kTwoGpus));
  const PricedWork priced = price_by_profile(plan, profile);
  const auto is_it = [&](const Work& work) {
    return work.kind == TaskKind::backward && work.first_layer == first_layer && work.accumulate;
  };
  return static_cast<double>(cost_of(plan, priced, is_it).device_ns) / 1e3;
}

TEST_CASE("a whole backward by the length of its stage: T(1) and the slope to T(4)", "[price]") {
  const CostProfile profile = with_lengths(16);
  CHECK(whole_backward_us(profile, 0) == Approx(14 + 2 * 18));
  CHECK(whole_backward_us(profile, 3) == Approx(3 + 26 + 18));  // the loss takes 3
}

TEST_CASE("a whole backward of layers that were measured alone, and in no longer stage: as often as alone", "[price]") {
  const CostProfile profile = with_lengths(32);
  CHECK(whole_backward_us(profile, 0) == 14 + 26 + 26);
  CHECK(whole_backward_us(profile, 3) == 3 + 26 + 26);
}

TEST_CASE("a plan on two GPUs, every piece of work priced from the profile", "[price]") {
  ProfileBuilder b = builder();
  b.quiet_host();
  const CostProfile profile = b.done();
  const Plan plan = make_plan(spec(kTwoGpus));  // stages of 3 and 2 layers, micro-batches of 16
  const PricedWork priced = price_by_profile(plan, profile);
  CHECK(priced.warnings.empty());
  const auto device_us = [&](TaskKind kind, std::int32_t first_layer, bool accumulate) {
    return static_cast<double>(cost_of(plan, priced,
                                       [&](const Work& work) {
                                         return work.kind == kind && work.first_layer == first_layer &&
                                                work.accumulate == accumulate;
                                       })
                                   .device_ns) /
           1e3;
  };
  CHECK(device_us(TaskKind::forward, 0, false) == 30);
  CHECK(device_us(TaskKind::forward, 3, false) == 20);
  CHECK(device_us(TaskKind::backward, 0, false) == 20 + 20 + 12);
  CHECK(device_us(TaskKind::backward, 0, true) == 23 + 23 + 14);
  CHECK(device_us(TaskKind::backward, 3, false) == 3 + 20 + 20);
  CHECK(device_us(TaskKind::backward, 3, true) == 3 + 23 + 23);
  CHECK(device_us(TaskKind::optimizer, 0, false) == 2);
  const auto transfer = [&](TaskKind kind) {
    return cost_of(plan, priced, [&](const Work& work) { return work.kind == kind; });
  };
  // 16 x 64 x 4 bytes = 4 KiB: a fifth of the way from 1 KiB to 1 MiB in log(bytes).
  CHECK(transfer(TaskKind::send_forward).device_ns == std::llround(5e3 * std::pow(10, 0.2)));
  CHECK(transfer(TaskKind::send_backward).device_ns == std::llround(6e3 * std::pow(10, 0.2)));
}

TEST_CASE("kernels share the device time by duration and the issue time evenly", "[price]") {
  ProfileBuilder b;
  Curve& forward = b.layer("forward", 64, {{16, 10}});
  forward.points[0].issue_ns = 9000;
  forward.points[0].kernels = {{"gemm", 3000, 8, 1, 1},
                               {"relu", 1000, 8, 1, 2}};  // 3 : 1 : 1 of 10 us, 3 us of issue each
  MeasuredKey backward = ProfileBuilder::layer_key("backward", 64, 64);
  for (const bool input_gradient : {true, false}) {
    backward.input_gradient = input_gradient;
    b.add(backward, {{16, 20}});
  }
  b.loss({{1024, 3}});
  b.optimizer("sgd", {{1000, 2}});
  b.quiet_host();
  const CostProfile profile = b.done();
  const Plan plan = make_plan(spec("--gpus 1 --depth 2 --dim 64 --batch 16 --microbatches 1"));
  const PricedWork priced = price_by_profile(plan, profile);
  const TaskCost cost = cost_of(plan, priced, [](const Work& work) { return work.kind == TaskKind::forward; });
  const std::vector<std::int64_t> issue(6, 3000);
  const std::vector<std::int64_t> device = {6000, 2000, 2000, 6000, 2000, 2000};
  CHECK(cost == collapse(issue, device));
}

TEST_CASE("rounding to nanoseconds does not add up: the sum of 1000 layers is right", "[price]") {
  ProfileBuilder b = builder();
  b.quiet_host();
  b.profile.curves.front().curve.points[0].time_ns = 10000.4;
  const CostProfile profile = b.done();
  const Plan plan = make_plan(spec("--gpus 1 --depth 1000 --dim 64 --batch 16 --microbatches 1"));
  const PricedWork priced = price_by_profile(plan, profile);
  CHECK(cost_of(plan, priced, [](const Work& work) { return work.kind == TaskKind::forward; }).device_ns == 10000400);
}

TEST_CASE("host constants: launch latency before the first kernel, issue of transfers, overhead of the step",
          "[price]") {
  ProfileBuilder b = builder();
  b.host("launch_latency", 4);
  b.host("step_overhead", 30).key.workers = 1;
  b.host("step_overhead", 50).key.workers = 2;
  b.host("transfer_issue", 7).key.transport = "copy";
  b.host("transfer_issue", 99).key.transport = "nccl";
  b.host("wait_issue", 2);
  const CostProfile profile = b.done();
  const Plan plan = make_plan(spec(kTwoGpus));
  const PricedWork priced = price_by_profile(plan, profile);
  CHECK(priced.warnings.empty());
  CHECK(priced.step_overhead_ns == 50000);
  const TaskCost forward =
      cost_of(plan, priced, [](const Work& w) { return w.kind == TaskKind::forward && w.first_layer == 0; });
  CHECK(forward == TaskCost{30000, 0, 4000, 34000});
  const TaskCost send = cost_of(plan, priced, [](const Work& w) { return w.kind == TaskKind::send_forward; });
  CHECK(send.issue_ns == 9000);  // of the copy, and of the wait for it, which no task of its own stands for
  CHECK(send.first_launch_ns == 13000);
}

TEST_CASE("NCCL: both ends are issued, the wait is counted with the receive", "[price]") {
  ProfileBuilder b = builder();
  b.quiet_host();
  b.transfer("nccl", 0, 1, {{1024, 5}, {1 << 20, 50}});
  b.transfer("nccl", 1, 0, {{1024, 5}, {1 << 20, 50}});
  b.host("transfer_issue", 10).key.transport = "nccl";
  b.host("wait_issue", 2).key.transport = "nccl";
  const CostProfile profile = b.done();
  const Plan plan = make_plan(spec(kTwoGpus + "--transport nccl"));
  const PricedWork priced = price_by_profile(plan, profile);
  CHECK(cost_of(plan, priced, [](const Work& w) { return w.kind == TaskKind::send_forward; }).issue_ns == 10000);
  CHECK(cost_of(plan, priced, [](const Work& w) { return w.kind == TaskKind::receive_forward; }).issue_ns == 12000);
}

TEST_CASE("a pair of workers that was not measured: the median of the pairs, said once", "[price]") {
  ProfileBuilder b = builder();
  b.quiet_host();
  b.transfer("copy", 0, 2, {{1024, 9}, {1 << 20, 90}});
  const CostProfile profile = b.done();  // 0 -> 1: 5, 1 -> 0: 6, 0 -> 2: 9 us at 1 KiB
  const Plan plan =
      make_plan(spec("--gpus 4 --depth 4 --dim 64 --batch 4 --microbatches 1 --schedule gpipe"));  // 1 KiB
  const PricedWork priced = price_by_profile(plan, profile);
  const TaskCost send =
      cost_of(plan, priced, [](const Work& w) { return w.kind == TaskKind::send_forward && w.from_worker == 2; });
  CHECK(send.device_ns == 6000);
  CHECK_THAT(priced.warnings.back(), ContainsSubstring("transfers copy 1 -> 2 and 3 more of this kind") &&
                                         ContainsSubstring("median of its 3 pairs"));
}

TEST_CASE("what the profile lacks is refused with what it has", "[price]") {
  ProfileBuilder b = builder();
  const CostProfile profile = b.done();
  const auto refusal = [&](const std::string& flags) {
    try {
      price_by_profile(make_plan(spec(kTwoGpus + flags)), profile);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  CHECK(refusal("--dtype tf32") == "--dtype: found tf32, expected what profile test has layers of: fp32");
  CHECK(refusal("--optimizer adam") == "--optimizer: found adam, expected what profile test has: sgd");
  CHECK(refusal("--transport nccl") == "--transport: found nccl, expected what profile test has: copy");
  const CostProfile empty = ProfileBuilder().done();
  CHECK_THROWS_AS(price_by_profile(make_plan(spec(kTwoGpus)), empty), InputError);
}

TEST_CASE("a profile without a loss cannot price a training step", "[price]") {
  ProfileBuilder b = builder();
  std::erase_if(b.profile.curves, [](const MeasuredCurve& curve) { return curve.key.probe == Probe::loss; });
  const CostProfile profile = b.done();
  CHECK_THROWS_WITH(price_by_profile(make_plan(spec(kTwoGpus)), profile),
                    ContainsSubstring("no measurement of the loss"));
}

TEST_CASE("extrapolated, missing and doubtful things are in the warnings, each kind once", "[price]") {
  ProfileBuilder b = builder();
  b.profile.warnings = {"not synchronised? something"};
  const CostProfile profile = b.done();
  const Plan plan = make_plan(spec("--gpus 2 --depth 4 --dim 128 --batch 64 --microbatches 2 --schedule gpipe"));
  const PricedWork priced = price_by_profile(plan, profile);
  CHECK(priced.warnings ==
        std::vector<std::string>{
            "extrapolated: dim 128 beyond the only one measured, 64",
            "extrapolated: elements of loss pipeline fp32 4096 beyond the only one measured, 1024",
            "extrapolated: rows 32 beyond the only one measured, 16",
            "not in profile test: host step_overhead, transfer_issue, wait_issue, launch_latency; taken as no time "
            "(pdl-calibrate measures it)",
            "profile test: not synchronised? something"});
  CHECK(priced.warning_shares.size() == 3);  // those about pieces of work
  CHECK(priced.warning_shares.at(priced.warnings[0]) > 0.5);
  CHECK(priced.warning_shares.at(priced.warnings[0]) == priced.warning_shares.at(priced.warnings[2]));
}

TEST_CASE("messages beyond any size measured: never free, never negative", "[price]") {
  ProfileBuilder b = builder();
  b.quiet_host();
  const CostProfile profile = b.done();
  Plan plan = make_plan(spec(kTwoGpus));
  std::int64_t last = 0;
  for (const std::int64_t bytes :
       {std::int64_t{1}, std::int64_t{65536}, std::int64_t{1} << 34, std::int64_t{1} << 40}) {
    for (Work& work : plan.graph.works) {
      if (is_transfer(work.kind)) work.bytes = bytes;
    }
    const PricedWork priced = price_by_profile(plan, profile);
    const TaskCost send = cost_of(plan, priced, [](const Work& w) { return w.kind == TaskKind::send_forward; });
    CHECK(send.device_ns > last);
    last = send.device_ns;
    CHECK(priced.warnings.size() == (bytes == 65536 ? 0 : 1));
  }
}

TEST_CASE("a step of centuries is refused, not wrapped round", "[price]") {
  ProfileBuilder b = builder();
  b.quiet_host();
  const CostProfile profile = b.done();
  Plan plan = make_plan(spec(kTwoGpus));
  for (Work& work : plan.graph.works) work.rows = std::int64_t{1} << 40;
  for (Layer& layer : plan.spec.model.layers) layer = linear_relu(1 << 20, 1 << 20);
  CHECK_THROWS_WITH(price_by_profile(plan, profile), ContainsSubstring("100 years"));
}

TEST_CASE("on CPU the host is the device: occupied until the work is done, and no host constants are missed",
          "[price]") {
  ProfileBuilder b = builder();
  b.profile.host_description.device = "cpu";
  b.host("step_overhead", 20);
  for (MeasuredCurve& curve : b.profile.curves) {
    for (CurvePoint& point : curve.curve.points) point.issue_ns = point.time_ns;
  }
  const CostProfile profile = b.done();
  const Plan plan = make_plan(spec(kTwoGpus));
  const PricedWork priced = price_by_profile(plan, profile);
  CHECK(priced.warnings.empty());
  CHECK(cost_of(plan, priced, [](const Work& w) { return w.kind == TaskKind::forward && w.first_layer == 0; }) ==
        TaskCost{30000, 30000, 0, 30000});
  const TaskCost send = cost_of(plan, priced, [](const Work& w) { return w.kind == TaskKind::send_forward; });
  CHECK(send == TaskCost{send.device_ns, send.device_ns, 0, send.device_ns});
}

TEST_CASE("zero_grad is part of the optimizer's work where it was measured", "[price]") {
  ProfileBuilder b = builder();
  b.quiet_host();
  MeasuredKey key;
  key.probe = Probe::zero_grad;
  key.implementation = "pipeline";
  b.add(key, {{1000, 1}, {1000000, 1}});
  const CostProfile profile = b.done();
  const Plan plan = make_plan(spec("--gpus 1 --depth 1 --dim 64 --batch 16 --microbatches 1"));
  const PricedWork priced = price_by_profile(plan, profile);
  CHECK(cost_of(plan, priced, [](const Work& w) { return w.kind == TaskKind::optimizer; }).device_ns == 3000);
}

TEST_CASE("synthetic costs: whole nanoseconds, no host, optimizer free", "[price]") {
  const Plan plan = make_plan(spec("--gpus 2 --depth 2 --microbatches 2 --schedule gpipe --tf 1 --tb 2"));
  const std::vector<TaskCost> costs = price_synthetic(plan, {{1.0000004}, {2}, std::nullopt, 0.17777216});
  for (std::size_t w = 0; w < costs.size(); ++w) {
    const TaskKind kind = plan.graph.works[w].kind;
    const std::int64_t expected = kind == TaskKind::forward    ? 1000000
                                  : kind == TaskKind::backward ? 2000000
                                  : is_transfer(kind)          ? 177772
                                                               : 0;
    CHECK(costs[w] == device_only(expected));
  }
}

TEST_CASE("synthetic backward: tb is the whole of it, or its input gradient where tw is given", "[price]") {
  Plan plan = make_plan(spec("--gpus 1 --depth 1 --microbatches 1 --tf 1 --tb 2"));
  const auto of = [&](TaskKind kind, const SyntheticCosts& costs) {
    for (Work& work : plan.graph.works) work.kind = kind;
    return price_synthetic(plan, costs).front().device_ns;
  };
  const SyntheticCosts whole{{1}, {2.000001}, std::nullopt, 0}, split{{1}, {2}, std::vector{0.5}, 0};
  CHECK(of(TaskKind::backward, whole) == 2000001);
  CHECK(of(TaskKind::backward_input, whole) + of(TaskKind::backward_weight, whole) == 2000001);
  CHECK(of(TaskKind::backward, split) == 2500000);
  CHECK(of(TaskKind::backward_input, split) == 2000000);
  CHECK(of(TaskKind::backward_weight, split) == 500000);
}

TEST_CASE("synthetic costs are those of each stage, wherever it is", "[price]") {
  const Plan plan =
      make_plan(spec("--gpus 2 --depth 5 --microbatches 2 --schedule interleaved --tf 1,2,3,4 --tb 2 --tcomm 3"));
  const std::vector<TaskCost> costs = price_synthetic(plan, *plan.spec.synthetic);
  for (const Task& task : plan.graph.tasks) {
    if (task.kind == TaskKind::forward) CHECK(costs[task.work] == device_only((task.stage + 1) * 1'000'000));
    if (task.kind == TaskKind::backward) CHECK(costs[task.work] == device_only(2'000'000));
    if (is_transfer(task.kind)) CHECK(costs[task.work] == device_only(3'000'000));
  }
}

TEST_CASE("synthetic costs that are no times are refused", "[price]") {
  const Plan plan = make_plan(spec("--gpus 1 --depth 1 --microbatches 1 --tf 1 --tb 2"));
  CHECK_THROWS_AS(price_synthetic(plan, {{-1}, {2}, std::nullopt, 0}), InputError);
  CHECK_THROWS_AS(price_synthetic(plan, {{std::nan("")}, {2}, std::nullopt, 0}), InputError);
  CHECK_THROWS_AS(price_synthetic(plan, {{1}, {1e300}, std::nullopt, 0}), InputError);
}

}  // namespace
}  // namespace pdl
