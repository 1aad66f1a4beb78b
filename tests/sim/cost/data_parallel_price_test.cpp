// What each task of a data-parallel step costs, from a profile whose times can be added up by hand.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <tuple>

#include "sim/cost/hosts_of_profile.hpp"
#include "sim/cost/price.hpp"
#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/study/sweep.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kLatency = 4000;  // of a launch

/// Layers of width 64 and 2048 by autograd. A layer of 64: weight 16,384 bytes, bias 256: 16,640 bytes, 4,160 numbers.
/// Device time and, after the slash, time of issue, us:
///
///   forward   24.576 / 1    backward 140.48 / 2    loss 3 / 0.5      zero_grad 5 / 1    sgd 20 / 2    unscale 30 / 3
///   copy_in   8 / 99        copy_out 5 / 0.7       join 6 / 0.9      of 4,160 numbers; of 8,320 each twice as long /
///             as before
///   all_reduce 50, broadcast 40, reduce 30 of 16,640 bytes, 24 blocks each
///   copies of 4,096 bytes from GPU 0 to 1 12, from 1 to 0 13
///   host: launch_latency 4, reducer_hook 1.1, collective_issue 17 (nccl), scaler_wait 11, sleep_overrun 50,
///         transfer_issue 7, wait_issue 2 (copy), step_overhead 30 of one GPU, 70 of two
struct DataParallelProfile : ProfileBuilder {
  explicit DataParallelProfile(Dtype dtype = Dtype::fp32) {
    for (const std::int64_t dim : {64, 2048}) {
      MeasuredKey key = layer_key("forward", dim, dim);
      key.implementation = "autograd";
      key.dtype = dtype;
      flat(key, 24.576, 1);
      key.operation = "backward";
      for (const bool accumulate : {false, true}) {
        for (const bool input_gradient : {false, true}) {
          key.accumulate = accumulate;
          key.input_gradient = input_gradient;
          flat(key, 140.48, 2);
        }
      }
    }
    MeasuredKey key;
    key.implementation = "autograd";
    key.probe = Probe::loss;
    key.dtype = dtype;
    flat(key, 3, .5);
    key.dtype.reset();
    key.probe = Probe::zero_grad;
    flat(key, 5, 1);
    key.probe = Probe::optimizer;
    for (const auto& [name, device_us, issue_us] : {std::tuple{"sgd", 20, 2}, {"unscale", 30, 3}}) {
      key.optimizer = name;
      flat(key, device_us, issue_us);
    }
    for (const auto& [operation, us, issue_us] :
         {std::tuple{"copy_in", 8., 99.}, {"copy_out", 5., .7}, {"join", 6., .9}}) {
      MeasuredKey bucket;
      bucket.probe = Probe::bucket;
      bucket.operation = operation;
      Curve& curve = add(bucket, {{64, us / 2}, {4160, us}, {8320, 2 * us}, {1 << 22, 100 * us}});
      for (CurvePoint& point : curve.points) point.issue_ns = 1e3 * issue_us;
    }
    for (const std::int64_t ranks : {2, 4}) {
      collective("all_reduce", ranks, "nccl", {{256, 25}, {16640, 50}, {33280, 90}});
      collective("broadcast", ranks, "nccl", {{8192, 20}, {16640, 40}, {1 << 24, 500}});
      collective("reduce", ranks, "nccl", {{8192, 15}, {16640, 30}, {1 << 24, 400}});
    }
    transfer("copy", 0, 1, {{1024, 9}, {4096, 12}});
    transfer("copy", 1, 0, {{1024, 10}, {4096, 13}});
    host("launch_latency", 4);
    host("reducer_hook", 1.1);
    host("collective_issue", 17).key.transport = "nccl";
    host("scaler_wait", 11);
    host("sleep_overrun", 50);
    host("transfer_issue", 7).key.transport = "copy";
    host("wait_issue", 2).key.transport = "copy";
    host("step_overhead", 30).key.workers = 1;
    host("step_overhead", 70).key.workers = 2;
  }

  void flat(const MeasuredKey& key, double us, double issue_us) {
    for (CurvePoint& point : add(key, {{1, us}, {1 << 30, us}}).points) point.issue_ns = 1e3 * issue_us;
  }

  Curve& collective(const std::string& operation, std::int64_t ranks, const std::string& transport,
                    const Points& points) {
    MeasuredKey key;
    key.probe = Probe::collective;
    key.operation = operation;
    key.transport = transport;
    key.ranks = ranks;
    Curve& curve = add(key, points);
    for (CurvePoint& point : curve.points) point.kernels = {{"ring", point.time_ns, 24, 1, 1}};
    return curve;
  }
};

struct Priced {
  CostProfile profile;
  Plan plan;
  PricedWork priced;

  Priced(DataParallelProfile builder, const std::string& flags)
      : profile(builder.done()), plan(make_plan(spec(flags))), priced(price_by_profile(plan, profile)) {}

  /// The only work of this kind (that matches).
  std::size_t work(TaskKind kind, const std::function<bool(const Work&)>& matches) const {
    std::optional<std::size_t> found;
    for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
      if (plan.graph.works[w].kind != kind || !matches(plan.graph.works[w])) continue;
      CHECK_FALSE(found.has_value());
      found = w;
    }
    REQUIRE(found.has_value());
    return *found;
  }

  TaskCost of(TaskKind kind, const std::function<bool(const Work&)>& matches = [](const Work&) { return true; }) const {
    return priced.costs[work(kind, matches)];
  }

  const std::vector<KernelCost>& kernels_of(
      TaskKind kind, const std::function<bool(const Work&)>& matches = [](const Work&) { return true; }) const {
    return priced.shared.kernels.at(work(kind, matches));
  }
};

/// On an idle stream, one kernel after another, the first kLatency after its launch.
TaskCost kernels(const std::vector<std::int64_t>& issue_ns, const std::vector<std::int64_t>& device_ns) {
  TaskCost cost = collapse(issue_ns, device_ns);
  cost.first_launch_ns += kLatency;
  cost.span_ns += kLatency;
  return cost;
}

const std::string kDdp =
    // a bucket a layer
    "--strategy ddp --gpus 2 --depth 2 --dim 64 --batch 32 --bucket-mb 0.01 --first-bucket-mb 0.01 ";
const std::string kDp = "--strategy dp --gpus 2 --depth 1 --dim 64 --batch 32 ";

}  // namespace

TEST_CASE("ddp: a bucket is copied in by the hooks of its tensors, and copied out tensor by tensor",
          "[data_parallel]") {
  const Priced ddp(DataParallelProfile(), kDdp);
  CHECK(ddp.priced.warnings.empty());
  REQUIRE(ddp.plan.buckets.size() == 2);
  CHECK(ddp.of(TaskKind::bucket_copy_in) ==
        TaskCost{8000, 2200, 2200 + kLatency, 2200 + kLatency + 8000});  // not 99 us
  CHECK(ddp.of(TaskKind::bucket_copy_out) == TaskCost{5000, 1400, 1400 + kLatency, 1400 + kLatency + 5000});
}

TEST_CASE("ddp: a hook a tensor: a bucket of one bias, a bucket of four tensors", "[data_parallel]") {
  const Priced bias(DataParallelProfile(),
                    "--strategy ddp --gpus 2 --depth 1 --dim 64 --batch 32 --first-bucket-mb 0.0001");
  const auto tensors = [](std::int32_t count) { return [count](const Work& work) { return work.tensors == count; }; };
  REQUIRE(bias.plan.buckets.size() == 2);  // the bias, the weight
  CHECK(bias.of(TaskKind::bucket_copy_in, [](const Work& work) { return work.bytes == 256; }).issue_ns == 1100);
  CHECK(bias.of(TaskKind::bucket_copy_in, [](const Work& work) { return work.bytes == 256; }).device_ns == 4000);
  const Priced all(DataParallelProfile(), "--strategy ddp --gpus 2 --depth 2 --dim 64 --batch 32");
  CHECK(all.of(TaskKind::bucket_copy_in, tensors(4)) == kernels({4400}, {16000}));
  CHECK(all.of(TaskKind::bucket_copy_out, tensors(4)) == kernels({2800}, {10000}));
}

TEST_CASE("ddp: an all-reduce is issued in the time of the call", "[data_parallel]") {
  CHECK(Priced(DataParallelProfile(), kDdp).of(TaskKind::all_reduce) ==
        TaskCost{50000, 17000, 17000 + kLatency, 17000 + kLatency + 50000});
}

TEST_CASE("ddp: parts of a backward, the loss before the last layer's, the optimizer after zero_grad",
          "[data_parallel]") {
  const Priced ddp(DataParallelProfile(), kDdp);
  CHECK(ddp.of(TaskKind::forward) == kernels({1000, 1000}, {24576, 24576}));
  CHECK(ddp.of(TaskKind::backward, [](const Work& work) { return work.first_layer == 1; }) ==
        kernels({500, 2000}, {3000, 140480}));
  CHECK(ddp.of(TaskKind::backward, [](const Work& work) { return work.first_layer == 0; }) ==
        kernels({2000}, {140480}));
  CHECK(ddp.of(TaskKind::optimizer) == kernels({1000, 2000}, {5000, 20000}));
}

TEST_CASE("a process of its own waits for its own GPU, one process for all GPUs for all of them", "[data_parallel]") {
  CHECK(Priced(DataParallelProfile(), kDdp).priced.step_overhead_ns == 30000);
  CHECK(Priced(DataParallelProfile(), kDp).priced.step_overhead_ns == 70000);
}

TEST_CASE("sleeps take what they are asked for and what the host oversleeps", "[data_parallel]") {
  CHECK(Priced(DataParallelProfile(), kDdp + "--delay-ms 3").of(TaskKind::sleep) == TaskCost{0, 3050000, 0, 3050000});
  CHECK(Priced(DataParallelProfile(), kDp + "--straggler 1:2").of(TaskKind::sleep) == TaskCost{0, 2050000, 0, 2050000});
}

TEST_CASE("dp: a chunk of several tensors is joined before it moves, one tensor is not", "[data_parallel]") {
  const Priced joined(DataParallelProfile(), kDp);  // weight and bias
  CHECK(joined.priced.warnings.empty());
  CHECK(joined.of(TaskKind::broadcast) == kernels({900, 0}, {6000, 40000}));
  CHECK(joined.of(TaskKind::reduce) == kernels({900, 0}, {6000, 30000}));
  // 16 MiB of weight, which is a chunk alone, and 8 KiB of bias.
  const Priced alone(DataParallelProfile(), "--strategy dp --gpus 2 --depth 1 --dim 2048 --batch 32");
  const auto weight = [](const Work& work) { return work.bytes == 1 << 24; };
  const auto bias = [](const Work& work) { return work.bytes == 8192; };
  CHECK(alone.of(TaskKind::broadcast, weight) == kernels({0}, {500000}));
  CHECK(alone.of(TaskKind::reduce, weight) == kernels({0}, {400000}));
  CHECK(alone.of(TaskKind::broadcast, bias) == kernels({0}, {20000}));
  CHECK(alone.of(TaskKind::reduce, bias) == kernels({0}, {15000}));
}

TEST_CASE("dp: one host calls broadcasts and reductions for all GPUs, each in the time of that call",
          "[data_parallel]") {
  DataParallelProfile builder;
  for (MeasuredCurve& measured : builder.profile.curves) {
    if (measured.key.probe != Probe::collective) continue;
    for (CurvePoint& point : measured.curve.points) point.issue_ns = measured.key.operation == "broadcast" ? 300 : 600;
  }
  const Priced dp(builder, kDp);
  CHECK(dp.of(TaskKind::broadcast) == kernels({900, 300}, {6000, 40000}));
  CHECK(dp.of(TaskKind::reduce) == kernels({900, 600}, {6000, 30000}));
  CHECK(Priced(builder, kDdp).of(TaskKind::all_reduce).issue_ns == 17000);  // c10d's call
}

TEST_CASE("ddp joins nothing: its buckets are flat", "[data_parallel]") {
  DataParallelProfile builder;
  std::erase_if(builder.profile.curves, [](const MeasuredCurve& measured) { return measured.key.operation == "join"; });
  CHECK(Priced(builder, kDdp).of(TaskKind::all_reduce).device_ns == 50000);
  CHECK_THROWS_WITH(Priced(builder, kDp), ContainsSubstring("no measurement of bucket join"));
}

TEST_CASE("dp: the gradients of a later round are added: two reads and a write, 1.5 times a copy", "[data_parallel]") {
  // All 8,320 numbers in 4 tensors: 10 us a copy.
  const Priced dp(DataParallelProfile(), "--strategy dp --gpus 2 --depth 2 --dim 64 --batch 32 --accum 2");
  CHECK(dp.of(TaskKind::bucket_copy_out) == kernels({2800}, {15000}));
}

TEST_CASE("dp: the loss is of all samples", "[data_parallel]") {
  DataParallelProfile builder;
  for (MeasuredCurve& measured : builder.profile.curves) {
    if (measured.key.probe != Probe::loss) continue;
    measured.curve.points.front().size = 1024;  // 3 us at half of the samples, 7 at 32 x 64 numbers
    measured.curve.points.back() = measured.curve.points.front();
    measured.curve.points.back().size = 2048;
    measured.curve.points.back().time_ns = 7000;
  }
  const Priced dp(builder, kDp);
  CHECK(dp.of(TaskKind::loss) == kernels({500}, {7000}));
  CHECK(dp.of(TaskKind::backward, [](const Work& work) { return !work.loss; }) == kernels({2000}, {140480}));
}

TEST_CASE("dp: a slice is issued where it comes from, and waited for at both ends", "[data_parallel]") {
  // 16 rows of 64 numbers: 4,096 bytes. There are no receives of their own, so that the sender's wait is counted with
  // its copy.
  const Priced dp(DataParallelProfile(), kDp);
  const auto receives = [](bool end) { return [end](const Work& work) { return work.receives == end; }; };
  CHECK(dp.of(TaskKind::scatter, receives(false)) == kernels({9000}, {12000}));
  CHECK(dp.of(TaskKind::scatter, receives(true)) == kernels({2000}, {12000}));
  CHECK(dp.of(TaskKind::gather, receives(false)) == kernels({9000}, {13000}));
  CHECK(dp.of(TaskKind::gather, receives(true)) == kernels({2000}, {13000}));
}

TEST_CASE("dp on CPU: the host that sends a slice is at it until it is there, who receives is not", "[data_parallel]") {
  DataParallelProfile builder;
  builder.profile.host_description.device = "cpu";
  for (const char* operation : {"broadcast", "reduce"})
    builder.collective(operation, 2, "copy", {{256, 7}, {16640, 80}});
  const Priced dp(builder, kDp);
  const auto receives = [](bool end) { return [end](const Work& work) { return work.receives == end; }; };
  CHECK(dp.of(TaskKind::scatter, receives(false)) == TaskCost{12000, 12000, 0, 12000});
  CHECK(dp.of(TaskKind::scatter, receives(true)).issue_ns == 2000);
  CHECK(dp.of(TaskKind::gather, receives(false)) == TaskCost{13000, 13000, 0, 13000});
  CHECK(dp.of(TaskKind::broadcast) == TaskCost{86000, 86000, 0, 86000});  // its own threads copy: join, then broadcast
}

TEST_CASE("ddp on CPU: gradients by Gloo, which goes without saying, NCCL is refused", "[data_parallel]") {
  DataParallelProfile builder;
  builder.profile.host_description.device = "cpu";
  std::erase_if(builder.profile.curves,
                [](const MeasuredCurve& measured) { return measured.key.probe == Probe::collective; });
  builder.collective("all_reduce", 2, "gloo", {{256, 70}, {16640, 500}, {33280, 700}});
  CHECK(Priced(builder, kDdp + "--transport gloo").of(TaskKind::all_reduce).device_ns == 500000);
  const std::vector<SettingValue> given = {{"strategy", "ddp", "--strategy"},
                                           {"gpus", "2", "--gpus"},
                                           {"dim", "64", "--dim"},
                                           {"depth", "2", "--depth"},
                                           {"batch", "64", "--batch"}};
  const CostProfile profile = builder.done();
  const Sweep silent = run_sweep(given, &profile, {});
  REQUIRE(silent.rows.front().result);
  CHECK(find_setting(silent.rows.front().settings, "transport")->value == "gloo");
  std::vector<SettingValue> by_nccl = given;
  by_nccl.push_back({"transport", "nccl", "--transport"});
  const Sweep refused = run_sweep(by_nccl, &profile, {});
  CHECK_FALSE(refused.rows.front().result);
  CHECK_THAT(refused.rows.front().refusal, ContainsSubstring("no all_reduce by nccl"));
}

TEST_CASE("amp-fp16: unscale, the host's wait for what it found, then zero_grad and the optimizer", "[data_parallel]") {
  const Priced ddp(DataParallelProfile(Dtype::amp_fp16), kDdp + "--dtype amp-fp16");
  CHECK(ddp.priced.warnings.empty());
  // Unscale 30; 11 of waiting; issue of zero_grad 1, its launch 4, 5 and 20 on the device: the rest is issued
  // meanwhile.
  const std::int64_t after = 11000 + 1000 + kLatency + 25000;
  CHECK(ddp.of(TaskKind::optimizer) ==
        TaskCost{30000 + after, 30000 + after, 3000 + kLatency, 3000 + kLatency + 30000 + after});
  // bf16 has no scaler.
  CHECK(Priced(DataParallelProfile(Dtype::amp_bf16), kDdp + "--dtype amp-bf16").of(TaskKind::optimizer) ==
        kernels({1000, 2000}, {5000, 20000}));
  DataParallelProfile none(Dtype::amp_fp16);
  std::erase_if(none.profile.curves, [](const MeasuredCurve& measured) { return measured.key.optimizer == "unscale"; });
  CHECK_THROWS_WITH(Priced(none, kDdp + "--dtype amp-fp16"), ContainsSubstring("unscale"));
}

TEST_CASE("ddp: where multiprocessors are shared, a collective is one kernel that holds as many as it has blocks",
          "[data_parallel]") {
  DataParallelProfile builder;
  builder.profile.host_description.multiprocessors = 132;
  const Priced ddp(builder, kDdp);
  CHECK(ddp.priced.shared.count == 132);
  CHECK(ddp.priced.shared.launch_latency_ns == kLatency);
  CHECK(ddp.kernels_of(TaskKind::all_reduce) == std::vector<KernelCost>{{17000, 50000, 24, 0, 0}});
  CHECK(ddp.kernels_of(TaskKind::bucket_copy_in) == std::vector<KernelCost>{{2200, 8000, 0, 0, 0}});
  CHECK(ddp.kernels_of(TaskKind::forward) == std::vector<KernelCost>{{1000, 24576, 0, 0, 0}, {1000, 24576, 0, 0, 0}});
}

TEST_CASE(
    "ddp: where processes wait for each other the host is the slowest of them, a slow host is the 95th percentile",
    "[data_parallel]") {
  DataParallelProfile builder;
  for (MeasuredCurve& measured : builder.profile.curves) {
    if (measured.key.probe != Probe::layer) continue;
    for (CurvePoint& point : measured.curve.points) point.issue_ns = HostSpread(1000, 2000, 3000, 4000);
  }
  for (HostTime& host : builder.profile.host) {
    if (host.key.name == "reducer_hook") host.time_ns = HostSpread(100, 200, 300, 400);
  }
  const auto forward = [](const Priced& priced) {
    return priced.of(TaskKind::forward, [](const Work&) { return true; }).issue_ns;
  };
  const auto copy_in = [](const Priced& priced) {
    return priced.of(TaskKind::bucket_copy_in, [](const Work& work) { return work.tensors == 2; }).issue_ns;
  };
  const std::string flags = "--strategy ddp --dim 64 --depth 2 --bucket-mb 0.01 --first-bucket-mb 0.01 ";
  // Two layers. 2 processes: quantile .7071, between the median and p75.
  const Priced one(builder, flags + "--gpus 1 --batch 8"), two(builder, flags + "--gpus 2 --batch 16");
  CHECK(forward(one) == 2000);
  CHECK(forward(two) == 3657);
  CHECK(copy_in(one) == 2 * 100 + 17000);  // and the call of allreduce, which two do as a task of its own
  CHECK(copy_in(two) == 366);
  // One process with a thread a GPU waits for its own threads, not for the slowest of several.
  CHECK(forward(Priced(builder, "--strategy dp --dim 64 --depth 2 --gpus 2 --batch 16")) == 2000);
  const PricedWork slow = price_by_profile(one.plan, one.profile, HostSpeed::slow);
  CHECK(slow.costs[one.work(TaskKind::forward, [](const Work&) { return true; })].issue_ns == 8000);
}

TEST_CASE("a straggler does not change what program a step is", "[data_parallel]") {
  const std::string flags = "--strategy ddp --dim 64 --depth 2 --gpus 2 --batch 16 --straggler ";
  const Priced first(DataParallelProfile(), flags + "0:5"), second(DataParallelProfile(), flags + "1:5");
  CHECK(first.priced.step_overhead_ns == second.priced.step_overhead_ns);
  CHECK(first.priced.warnings == second.priced.warnings);
}

TEST_CASE("a step that GPUs bound is longer by what the forward is late after the wait for the step before",
          "[data_parallel]") {
  //   host  | 9 late | F | B ...       |      wait for the GPU        |
  //   GPU              F  B  in out  optimizer
  DataParallelProfile builder;
  const auto late = [&](const char* operation, const char* name, double us) {
    MeasuredKey key;
    key.probe = Probe::pause;
    key.implementation = "autograd";
    key.operation = operation;
    key.name = name;
    key.dtype = Dtype::fp32;
    builder.flat(key, us, 0);
  };
  const std::string gpu_bound = "--strategy ddp --gpus 1 --depth 2 --dim 64 --batch 32";
  const CostProfile without = DataParallelProfile().done();
  for (const char* operation : {"forward", "backward", "optimizer"}) late(operation, "again", 1);
  late("forward", "later", 5);
  late("forward", "after_wait", 10);
  late("backward", "later", 3);  // behind the GPU, which is at the forward: hidden
  late("optimizer", "later", 4);
  const CostProfile with = builder.done();
  const auto step_us = [](const std::string& flags, const CostProfile& profile) {
    return std::llround(1e3 * predict(spec(flags), &profile).step_time.median_ms);
  };
  CHECK(step_us(gpu_bound, with) == step_us(gpu_bound, without) + 9);
  // The sleep is most of what the forward was not issued for, not the wait at the end; nothing hides the backward
  // behind it.
  CHECK(step_us(gpu_bound + " --delay-ms 5", with) == step_us(gpu_bound + " --delay-ms 5", without) + 4 + 2);
  // DataParallel's threads wait for each other: left as they are.
  CHECK(price_by_profile(make_plan(spec(kDp)), with).pauses.empty());
}

TEST_CASE("one GPU's Reducer calls allreduce: in the time of a group of one, or of a larger one, which is said",
          "[data_parallel]") {
  const std::string one_gpu = "--strategy ddp --gpus 1 --depth 1 --dim 64 --batch 32";
  DataParallelProfile builder;
  const Priced larger(builder, one_gpu);
  const std::int64_t issue_ns = larger.of(TaskKind::bucket_copy_in).issue_ns;
  CHECK(issue_ns == 2 * 1100 + 17000);  // two hooks and the call
  REQUIRE(larger.priced.warnings.size() == 1);
  CHECK_THAT(larger.priced.warnings.front(),
             ContainsSubstring("collective_issue in a group of one GPU; that of larger groups used instead"));
  HostTime& alone = builder.host("collective_issue", 5);
  alone.key.transport = "nccl";
  alone.key.workers = 1;
  const Priced measured(builder, one_gpu);
  CHECK(measured.of(TaskKind::bucket_copy_in).issue_ns == 2 * 1100 + 5000);
  CHECK(measured.priced.warnings.empty());
}

TEST_CASE("sleeps of a profile that does not know how long hosts oversleep: said", "[data_parallel]") {
  DataParallelProfile builder;
  std::erase_if(builder.profile.host, [](const HostTime& host) { return host.key.name == "sleep_overrun"; });
  const Priced priced(builder, "--strategy ddp --dim 64 --depth 2 --gpus 2 --batch 16 --delay-ms 5");
  REQUIRE(priced.priced.warnings.size() == 1);
  CHECK_THAT(priced.priced.warnings.front(), ContainsSubstring("host sleep_overrun; taken as no time"));
}

TEST_CASE("a copy out that was recorded without a kernel holds the thread blocks of the copy in", "[data_parallel]") {
  DataParallelProfile builder;
  builder.profile.host_description.multiprocessors = 132;
  for (MeasuredCurve& measured : builder.profile.curves) {
    if (measured.key.probe != Probe::bucket || measured.key.operation != "copy_in") continue;
    for (CurvePoint& point : measured.curve.points) point.kernels = {{"copy", point.time_ns, 512, 8, 1}};
  }
  const Priced ddp(builder, kDdp);
  CHECK(ddp.kernels_of(TaskKind::bucket_copy_out).front().blocks == 512);
  CHECK(ddp.kernels_of(TaskKind::bucket_copy_out).front().blocks_per_multiprocessor == 8);
}

TEST_CASE("hosts that nobody gave are those that the profile was measured on, and it is said", "[data_parallel]") {
  DataParallelProfile builder;
  for (CurvePoint& point : builder.collective("all_reduce", 8, "nccl", {{256, 60}, {33280, 200}}).points)
    point.count = 1;
  builder.profile.curves.back().key.hosts = 2;
  const CostProfile profile = builder.done();
  const std::string flags = "--strategy ddp --depth 2 --dim 64 --batch 32 --gpus ";
  const auto warned = [](const RunResult& run, const std::string& text) {
    return std::any_of(run.warnings.begin(), run.warnings.end(),
                       [&](const std::string& warning) { return warning.find(text) != std::string::npos; });
  };
  const RunResult two = predict(spec(flags + "8"), &profile), given = predict(spec(flags + "8 --hosts 2"), &profile);
  CHECK(two.spec.hosts == 2);
  CHECK(warned(two, "hosts 2: of 4 GPUs each, as the hosts of profile test (--hosts says otherwise)"));
  CHECK_FALSE(warned(given, "hosts 2"));
  CHECK_FALSE(warned(two, "extrapolated: all_reduce"));
  CHECK(two.step_time.median_ms == given.step_time.median_ms);
  CHECK(predict(spec(flags + "16"), &profile).spec.hosts == 4);
  CHECK(warned(predict(spec(flags + "16"), &profile),
               "extrapolated: all_reduce of 16 GPUs on 4 hosts from 8 GPUs on 2 hosts measured"));
  CHECK(predict(spec(flags + "4"), &profile).spec.hosts == 1);
  CHECK_THROWS_AS(predict(spec(flags + "6"), &profile), InputError);
  const RunResult six = predict(spec(flags + "6 --hosts 2"), &profile);
  CHECK(six.spec.hosts == 2);
  CHECK_FALSE(warned(six, "of 3 GPUs each"));
  CHECK(predict(spec(flags + "6 --tf 1 --tb 2"), nullptr).spec.hosts == 1);
  CHECK(predict(spec(flags + "8 --hosts 1"), &profile).spec.hosts == 1);
  CHECK(warned(predict(spec(flags + "8 --hosts 2 --network-gb-per-s 5"), &profile),
               "not used: the network that was given"));
  const std::string text = " GPUs are taken to be on one host; the hosts of profile test have 4 GPUs each";
  for (const std::string program :
       {"--strategy pp --pp 2 --dp 4", "--strategy dp --gpus 8", "--strategy mp --gpus 8"}) {
    INFO(program);
    const RunSpec eight = spec(program + " --depth 8 --dim 64 --batch 32");
    CHECK(hosts_notice(make_plan(eight), profile) == "all 8" + text);
    CHECK(hosts_notice(make_plan(eight), DataParallelProfile().done()).empty());
  }
  CHECK(hosts_notice(make_plan(spec("--strategy mp --depth 8 --gpus 4")), profile).empty());
  CHECK(hosts_notice(make_plan(spec(flags + "8 --hosts 1")), profile).empty());
}
