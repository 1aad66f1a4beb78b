// Pipelines of PyTorch: halves of autograd's backwards, host times of Python, messages that are kernels.
#include "sim/cost/price.hpp"
#include "sim/io/json_place.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

/// Layers of 64: forward 1 us a row, whole backward 2, without input gradient 1. NCCL 4 us a message.
CostProfile with_nccl(std::int64_t multiprocessors = 0) {
  CostProfile profile = tiny_profile();
  const std::vector<MeasuredCurve> curves = profile.curves;
  for (MeasuredCurve curve : curves) {
    if (curve.key.probe != Probe::transfer) continue;
    curve.key.transport = "nccl";
    curve.curve = tiny_constant(4000);
    profile.curves.push_back(curve);
  }
  std::sort(profile.curves.begin(), profile.curves.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  profile.host_description.multiprocessors = multiprocessors;
  return profile;
}

void add_host(CostProfile& profile, const std::string& name, double us) {
  HostTime host;
  host.key.probe = Probe::host;
  host.key.name = name;
  host.key.implementation = "autograd";
  host.time_ns = host.p25_ns = us * 1000;
  host.count = 10;
  profile.host.push_back(host);
  std::sort(profile.host.begin(), profile.host.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
}

void add_python(CostProfile& profile) {
  for (const auto& [name, us] : {std::pair{"forward", 100},
                                 {"forward_layer", 10},
                                 {"backward", 200},
                                 {"backward_layer", 20},
                                 {"backward_input", 300},
                                 {"backward_input_layer", 30},
                                 {"backward_weight", 400},
                                 {"backward_weight_layer", 40},
                                 {"message", 50},
                                 {"loss", 80},
                                 {"action", 7},
                                 {"step", 900},
                                 {"plain_forward", 30},
                                 {"plain_forward_layer", 3},
                                 {"plain_backward", 60},
                                 {"plain_backward_layer", 6},
                                 {"optimizer", 70},
                                 {"optimizer_layer", 2},
                                 {"zero_grad", 5},
                                 {"zero_grad_layer", 1}})
    add_host(profile, std::string("python_") + name, us);
}

CostProfile with_python() {
  CostProfile profile = with_nccl();
  add_python(profile);
  return profile;
}

Plan zb_v() {
  return make_plan(spec("--program pytorch --gpus 2 --depth 8 --dim 64 --batch 128 --microbatches 4 --schedule zb-v"));
}

/// The cost of the first work of a kind, of a stage in the middle.
TaskCost cost_of(const Plan& plan, const PricedWork& priced, TaskKind kind) {
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    const Work& work = plan.graph.works[w];
    if (work.kind == kind && (!is_compute(kind) || (work.first_layer == 2 && !work.accumulate))) return priced.costs[w];
  }
  FAIL("no such work");
  return {};
}

/// The same under AMP: of the 32 us of a forward of 32 rows 12 are casts of weight and bias; four launches of 1 us. The
/// wait of a GradScaler takes 11 us, its unscale 30; copies of gradients 6 us each, launched in 2.
CostProfile with_amp(bool kernels = true) {
  CostProfile profile = with_nccl();
  const std::vector<MeasuredCurve> curves = profile.curves;
  for (MeasuredCurve curve : curves) {
    if (curve.key.implementation != "autograd" || !curve.key.dtype) continue;
    for (const Dtype dtype : {Dtype::amp_bf16, Dtype::amp_fp16}) {
      curve.key.dtype = dtype;
      for (CurvePoint& point : curve.curve.points) {
        point.issue_ns = 4000;
        if (!kernels || curve.key.operation != "forward") continue;
        const char* elementwise = "at::native::vectorized_elementwise_kernel";
        point.kernels = {{elementwise, 4000, 8, 16, 1},
                         {elementwise, 2000, 1, 16, 1},
                         {"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT", 8000, 132, 1, 1},
                         {elementwise, 2000, 8, 16, 1}};
      }
      profile.curves.push_back(curve);
    }
  }
  MeasuredKey unscale;
  unscale.probe = Probe::optimizer;
  unscale.implementation = "autograd";
  unscale.optimizer = "unscale";
  profile.curves.push_back({unscale, tiny_constant(30'000)});
  for (const char* operation : {"copy_in", "copy_out"}) {
    MeasuredKey bucket;
    bucket.probe = Probe::bucket;
    bucket.operation = operation;
    Curve curve = tiny_constant(6000);
    for (CurvePoint& point : curve.points) point.issue_ns = 2000;
    profile.curves.push_back({bucket, curve});
  }
  std::sort(profile.curves.begin(), profile.curves.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  add_host(profile, "scaler_wait", 11);
  return profile;
}

bool warns_of_casts(const PricedWork& priced) {
  return std::any_of(priced.warnings.begin(), priced.warnings.end(), [](const std::string& warning) {
    return warning.find("does not say what autocast's casts of parameters take") != std::string::npos;
  });
}

bool warns_of_python(const PricedWork& priced) {
  return std::any_of(priced.warnings.begin(), priced.warnings.end(), [](const std::string& warning) {
    return warning.find("no host times of Python") != std::string::npos;
  });
}

}  // namespace

TEST_CASE("the halves of autograd's backward are what a backward without an input gradient has less, and that") {
  const Plan plan = zb_v();
  const PricedWork priced = price_by_profile(plan, with_nccl());
  CHECK(cost_of(plan, priced, TaskKind::forward).device_ns == 2 * 32'000);
  CHECK(cost_of(plan, priced, TaskKind::backward_input).device_ns == 2 * 32'000);
  CHECK(cost_of(plan, priced, TaskKind::backward_weight).device_ns == 2 * 32'000);
  // The model's first stage, whose split backward is a whole one: 1 us a row of its first layer, 2 of its second.
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    const Work& work = plan.graph.works[w];
    if (work.kind == TaskKind::backward) CHECK(priced.costs[w].device_ns == 32'000 + 64'000);
    CHECK_FALSE((work.kind == TaskKind::backward_input && work.first_layer == 0));
  }
}

TEST_CASE("where copies are known, W copies the gradient first, and the activation's backward is I's") {
  const Plan plan = zb_v();
  const PricedWork priced = price_by_profile(plan, with_amp());  // any copy takes 6 us, a ReLU's backward half more
  CHECK(cost_of(plan, priced, TaskKind::backward_input).device_ns == 2 * (32'000 + 9'000));
  CHECK(cost_of(plan, priced, TaskKind::backward_weight).device_ns == 2 * (32'000 - 9'000 + 6'000));
}

TEST_CASE("host times of Python: a call with its action and its layers, a message, optimizers") {
  const Plan plan = zb_v();
  const PricedWork priced = price_by_profile(plan, with_python());
  CHECK(cost_of(plan, priced, TaskKind::forward).issue_ns == 127'000);
  CHECK(cost_of(plan, priced, TaskKind::backward_input).issue_ns == 367'000);
  CHECK(cost_of(plan, priced, TaskKind::backward_weight).issue_ns == 487'000);
  CHECK(cost_of(plan, priced, TaskKind::send_forward).issue_ns == 57'000);
  CHECK(cost_of(plan, priced, TaskKind::receive_backward).issue_ns == 57'000);
  CHECK(cost_of(plan, priced, TaskKind::optimizer).issue_ns == (70'000 / 2) + (2 * 2'000));  // of two stages a process
  CHECK(priced.step_overhead_ns == 7'000 + 900'000 + 5'000 + (4 * 1'000));  // the schedule's own, and zero_grad
  CHECK_FALSE(warns_of_python(priced));
}

TEST_CASE("the last stage's loss takes a time of Python's thread for each micro-batch, no other stage one") {
  const Plan plan =
      make_plan(spec("--program pytorch --gpus 2 --depth 8 --dim 64 --batch 128 --microbatches 4 --schedule 1f1b"));
  const PricedWork priced = price_by_profile(plan, with_python());
  int losses = 0;
  for (const Task& task : plan.graph.tasks) {
    if (task.kind != TaskKind::backward) continue;
    const bool loss = plan.graph.works[task.work].loss;
    losses += loss;
    CHECK(loss == (task.stage == 1));
    CHECK(priced.costs[task.work].issue_ns == 200'000 + 7'000 + (4 * 20'000) + (loss ? 80'000 : 0));
  }
  CHECK(losses == 4);
}

TEST_CASE("host times of a script of one process: model(x), one backward through all layers with its loss") {
  const Plan plan = make_plan(spec("--program pytorch --strategy single --depth 4 --dim 64 --batch 32"));
  const PricedWork priced = price_by_profile(plan, with_python());
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    switch (plan.graph.works[w].kind) {
      case TaskKind::forward: CHECK(priced.costs[w].issue_ns == 30'000 + (4 * 3'000)); break;
      case TaskKind::backward: CHECK(priced.costs[w].issue_ns == 60'000 + (4 * 6'000)); break;
      case TaskKind::optimizer: CHECK(priced.costs[w].issue_ns == 70'000 + (4 * 2'000)); break;
      default: FAIL("another kind of work");
    }
  }
}

TEST_CASE("a profile without host times of Python says so, and its slow host is much slower") {
  const Plan plan = zb_v();
  CostProfile profile = with_nccl();
  for (MeasuredCurve& curve : profile.curves) {
    for (CurvePoint& point : curve.curve.points) point.issue_ns = 1000;
  }
  const PricedWork usual = price_by_profile(plan, profile), slow = price_by_profile(plan, profile, HostSpeed::slow);
  CHECK(warns_of_python(usual));
  CHECK(cost_of(plan, usual, TaskKind::forward).issue_ns == 2000);
  CHECK(cost_of(plan, slow, TaskKind::forward).issue_ns == 7000);
  // pdl-run's own pipelines are priced as before, and nothing is said.
  const Plan ours = make_plan(spec("--gpus 2 --depth 8 --dim 64 --batch 128 --microbatches 4 --schedule 1f1b"));
  CHECK_FALSE(warns_of_python(price_by_profile(ours, profile)));
}

TEST_CASE("host times of Python of another machine: it is said, and a slow host may be half as slow again") {
  const Plan plan = zb_v();
  CostProfile profile = with_python();
  nlohmann::json environment = {{"device", "cuda"}, {"card", "NVIDIA H200"}, {"count", 4}};
  const auto read = [&] { profile.host_description = read_environment(JsonPlace(environment, "environment")); };
  read();
  const auto says_another = [](const PricedWork& priced) {
    return std::any_of(priced.warnings.begin(), priced.warnings.end(), [](const std::string& warning) {
      return warning.find("are those of another machine, 2 x NVIDIA H200") != std::string::npos;
    });
  };
  const PricedWork own = price_by_profile(plan, profile, HostSpeed::slow);
  CHECK_FALSE(says_another(own));
  environment["added"] = {{{"count", 4}, {"python", "3.12"}}};  // added later, on the same machine
  read();
  CHECK(profile.host_description.other_machine_of_python.empty());
  environment["added"].push_back({{"count", 2}, {"python", "3.12"}});
  read();
  const PricedWork usual = price_by_profile(plan, profile), slow = price_by_profile(plan, profile, HostSpeed::slow);
  CHECK(says_another(usual));
  for (const TaskKind kind :
       {TaskKind::forward, TaskKind::backward_weight, TaskKind::send_forward, TaskKind::optimizer})
    CHECK(cost_of(plan, slow, kind).issue_ns == Approx(1.5 * static_cast<double>(cost_of(plan, own, kind).issue_ns)));
  CHECK(slow.step_overhead_ns - 7'000 == Approx(1.5 * static_cast<double>(own.step_overhead_ns - 7'000)));
  CHECK(cost_of(plan, usual, TaskKind::forward).issue_ns == 127'000);
}

TEST_CASE("a message between two GPUs is a kernel of 16 blocks") {
  const Plan plan = zb_v();
  const PricedWork priced = price_by_profile(plan, with_nccl(132));
  CHECK(priced.shared.count == 132);
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    if (!is_pipeline_transfer(plan.graph.works[w].kind)) continue;
    REQUIRE(priced.shared.kernels[w].size() == 1);
    CHECK(priced.shared.kernels[w].front().blocks == 16);
    CHECK(priced.shared.kernels[w].front().device_ns == 4000);
  }
  // Without messages nothing is shared.
  const Plan alone = make_plan(spec("--program pytorch --gpus 1 --depth 8 --dim 64 --batch 128 --schedule gpipe"));
  CHECK(price_by_profile(alone, with_nccl(132)).shared.count == 0);
}

TEST_CASE("a message in a batch takes no host time of its own, where it is known what a batch takes") {
  const Plan plan =
      make_plan(spec("--program pytorch --gpus 2 --depth 8 --dim 64 --batch 96 --microbatches 3 --schedule 1f1b"));
  const PricedWork with = price_by_profile(plan, with_python());
  int in_batches = 0;
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    if (!is_pipeline_transfer(plan.graph.works[w].kind)) continue;
    in_batches += plan.graph.works[w].same_call;
    CHECK(with.costs[w].issue_ns == (plan.graph.works[w].same_call ? 0 : 57'000));
  }
  CHECK(in_batches == 2);  // receives of activations and of gradients, behind a send
}

TEST_CASE("AMP: the first forward of a round casts parameters, the others are shorter by that") {
  const Plan plan = make_plan(spec(
      "--program pytorch --gpus 2 --depth 4 --dim 64 --batch 128 --microbatches 4 --schedule 1f1b --dtype amp-bf16"));
  const PricedWork priced = price_by_profile(plan, with_amp());
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    const Work& work = plan.graph.works[w];
    if (work.kind != TaskKind::forward) continue;
    CHECK(priced.costs[w].device_ns == 2 * (work.casts_are_there ? 20'000 : 32'000));
    CHECK(priced.costs[w].issue_ns == 2 * (work.casts_are_there ? 2000 : 4000));
  }
  CHECK_FALSE(warns_of_casts(priced));
  CHECK(warns_of_casts(price_by_profile(plan, with_amp(/*kernels=*/false))));
}

TEST_CASE("AMP in fp16: the GradScaler of a process waits once, whatever stages it has") {
  const Plan plan = make_plan(spec(
      "--program pytorch --gpus 2 --depth 8 --dim 64 --batch 128 --microbatches 4 --schedule zb-v --dtype amp-fp16"));
  const PricedWork priced = price_by_profile(plan, with_amp());
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    const Work& work = plan.graph.works[w];
    if (work.kind != TaskKind::optimizer) continue;
    const std::int64_t wait_ns = work.same_call ? 0 : 11'000;
    CHECK(priced.costs[w].device_ns == 30'000 + 5000 + 20'000 + wait_ns);
    CHECK(priced.costs[w].issue_ns == (work.same_call ? 0 : priced.costs[w].device_ns));
  }
}

TEST_CASE("gradients that are scaled take a kernel a tensor, as a copy into a bucket does") {
  const Plan plan =
      make_plan(spec("--program pytorch --gpus 2 --depth 4 --dim 64 --batch 128 --microbatches 4 "
                     "--schedule 1f1b --scale-grads 1"));
  const PricedWork priced = price_by_profile(plan, with_amp());
  const TaskCost scaling = cost_of(plan, priced, TaskKind::scale_gradients);
  CHECK(scaling.device_ns == 2 * 2 * 6000);
  CHECK(scaling.issue_ns == 2 * 2 * 2000);
}

TEST_CASE("a call of Python is counted once for a backward that is cut at buckets") {
  CostProfile profile = with_amp();
  add_python(profile);
  MeasuredKey reduce;
  reduce.probe = Probe::collective;
  reduce.operation = "all_reduce";
  reduce.transport = "nccl";
  reduce.ranks = 2;
  profile.curves.push_back({reduce, tiny_constant(9000)});
  std::sort(profile.curves.begin(), profile.curves.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  RunSpec two =
      spec("--program pytorch --gpus 4 --dp 2 --depth 8 --dim 64 --batch 128 --microbatches 2 --schedule gpipe");
  two.first_bucket_bytes = two.bucket_bytes = 1;  // a bucket a tensor: a part of a backward a layer
  const Plan plan = make_plan(two);
  const PricedWork priced = price_by_profile(plan, profile);
  std::int64_t whole_ns = 0, parts_ns = 0;
  for (const Task& task : plan.graph.tasks) {
    if (task.kind != TaskKind::backward || task.worker != 0) continue;
    (task.microbatch == 0 ? whole_ns : parts_ns) += priced.costs[task.work].issue_ns;
  }
  CHECK(whole_ns == 200'000 + 7'000 + 4 * 20'000);  // one action
  CHECK(parts_ns == whole_ns);
}
