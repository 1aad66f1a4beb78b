#include "calibrate/fit/fit.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "calibrate/fit/summary.hpp"
#include "sim/cost/price.hpp"
#include "sim/engine/run.hpp"
#include "sim/io/error.hpp"
#include "sim/io/json_text.hpp"
#include "sim/plan/plan.hpp"
#include "tests/calibrate/fit/sample_builder.hpp"
#include "tests/support/specs.hpp"

namespace pdl {
namespace {

const Curve& only_curve(const CostProfile& profile) {
  REQUIRE(profile.curves.size() == 1);
  return profile.curves.front().curve;
}

std::string text_of(const CostProfile& profile) {
  return json_text(to_json(profile));
}

bool warns(const CostProfile& profile, const std::string& part) {
  return std::any_of(profile.warnings.begin(), profile.warnings.end(),
                     [&](const std::string& warning) { return warning.find(part) != std::string::npos; });
}

/// Of a layer of 4096 with 512 rows beside such exchanges; without name and size.
MeasuredKey overlap_key(const std::string& operation, std::int64_t ranks) {
  MeasuredKey key;
  key.probe = Probe::overlap;
  key.operation = operation;
  key.transport = "nccl";
  key.ranks = ranks;
  key.dtype = Dtype::fp32;
  key.layer = linear_relu(4096, 4096);
  key.rows = 512;
  return key;
}

/// A whole calibration of a made-up machine with `noise`: layers at 1 TFLOP/s and 5 us, links of 10 us and 40 GB/s.
SampleBuilder machine(double noise, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 1);
  SampleBuilder b;
  b.samples.environment["device"] = "cuda";
  const auto values = [&](double us) {
    std::vector<double> list = {us * 50};
    for (int i = 0; i < 15; ++i) list.push_back(us * std::exp(noise * normal(random)));
    if (noise > 0) list[3] *= 8;  // now and then something else runs
    return list;
  };
  for (const std::int64_t dim : {64, 128, 256}) {
    for (const std::int64_t rows : {8, 32, 128}) {
      const double once = 5 + 2.0 * static_cast<double>(rows * dim * dim) / 1e6;
      b.layer(dim, rows, values(once)).issue_values = values(3);
      for (const bool accumulate : {false, true}) {
        for (const bool input : {false, true}) {
          MeasuredKey key = SampleBuilder::layer_key(dim, rows, "backward");
          key.accumulate = accumulate;
          key.input_gradient = input;
          b.add(key, values(input ? 2 * once : once)).issue_values = values(6);
        }
      }
    }
  }
  MeasuredKey loss;
  loss.probe = Probe::loss;
  loss.implementation = "pipeline";
  loss.dtype = Dtype::fp32;
  MeasuredKey optimizer;
  optimizer.probe = Probe::optimizer;
  optimizer.implementation = "pipeline";
  optimizer.optimizer = "sgd";
  for (const std::int64_t size : {1000, 10000, 100000, 1000000, 10000000}) {
    loss.size = optimizer.size = size;
    b.add(loss, values(4 + static_cast<double>(size) / 1e5));
    b.add(optimizer, values(6 + static_cast<double>(size) / 1e5));
  }
  for (int k = 10; k <= 26; k += 2) {
    for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}}) {
      b.add(SampleBuilder::transfer_key(1LL << k, from, to), values(10 + static_cast<double>(1LL << k) / 40e3));
    }
  }
  for (const char* name : {"step_overhead", "transfer_issue", "wait_issue", "launch_latency"}) {
    MeasuredKey host;
    host.probe = Probe::host;
    host.name = name;
    b.add(host, values(2));
  }
  return b;
}

std::int64_t step_ns(const CostProfile& profile) {
  const Plan plan = make_plan(spec("--gpus 2 --depth 5 --dim 128 --batch 120 --microbatches 4 --schedule 1f1b"));
  const PricedWork priced = price_by_profile(plan, profile);
  std::int64_t end = 0;
  for (const TaskTimes& times : run_graph(plan.graph, priced.costs)) end = std::max(end, times.end_ns);
  return end;
}

TEST_CASE("the first call is slow: warm-up is dropped, or doubted where none is declared", "[fit]") {
  for (const std::int64_t warmup : {0, 1}) {
    SampleBuilder b;
    b.transfer(1024, {700000, 3.1, 3.0, 3.2, 2.9}, "us", warmup);
    const CostProfile profile = fit_profile(b.samples);
    const CurvePoint& point = only_curve(profile).points[0];
    CHECK(point.time_ns >= 3000);
    CHECK(point.time_ns <= 3200);
    CHECK(point.p75_ns < 3300);
    CHECK(point.count == 4);
    CHECK(point.warmup == 1);
    CHECK(warns(profile, "no warm-up") == (warmup == 0));
    CHECK(warns(profile, "first value dropped") == (warmup == 0));
  }
}

TEST_CASE("two values without warm-up, the first one slow: the second is the time", "[fit]") {
  SampleBuilder b;
  b.transfer(1024, {700000, 3.0}, "us", 0);
  CHECK(only_curve(fit_profile(b.samples)).points[0].time_ns == 3000);
}

TEST_CASE("a loss whose kernels were recorded in less than it was measured in takes what was recorded", "[fit]") {
  // Two kernels of 100 and 300 us, and at most 3 us before each of them.
  for (const auto& [measured_us, expected_us] : {std::pair{450.0, 406.0}, {404.0, 404.0}, {380.0, 380.0}}) {
    SampleBuilder b;
    MeasuredKey loss;
    loss.probe = Probe::loss;
    loss.implementation = "autograd";
    loss.dtype = Dtype::fp32;
    loss.size = 1000;
    b.add(loss, {1000, measured_us, measured_us}).kernels = {{"fill", 100, 10, 2, 1}, {"softmax", 300, 10, 2, 1}};
    CHECK(only_curve(fit_profile(b.samples)).points[0].time_ns == expected_us * 1e3);
  }
}

TEST_CASE("medians and quartiles of what is left", "[fit]") {
  SampleBuilder b;
  Sample& sample = b.layer(64, 16, {100, 1, 2, 3, 4});
  sample.issue_values = {50, 7, 9, 8};
  sample.kernels = {{"gemm", 1.5, 10, 2, 3}};
  const CostProfile profile = fit_profile(b.samples);
  const CurvePoint& point = only_curve(profile).points[0];
  CHECK(point.time_ns == 2500);
  CHECK(point.p25_ns == 1750);
  CHECK(point.p75_ns == 3250);
  CHECK(point.issue_ns == HostSpread(8000, 8500, 8800, 8900));
  CHECK(point.kernels == std::vector<Kernel>{{"gemm", 1500, 10, 2, 3}});
}

TEST_CASE("two samples of one thing are one measurement", "[fit]") {
  SampleBuilder b;
  b.transfer(1024, {9, 1, 2, 3});
  b.transfer(1024, {9000, 5000, 4000}, "ns");
  const CurvePoint point = only_curve(fit_profile(b.samples)).points[0];
  CHECK(point.time_ns == 3000);
  CHECK(point.count == 5);
  CHECK(point.warmup == 2);
}

TEST_CASE("the same samples in s, ms, us and ns: the same profile, byte for byte, and the same step", "[fit]") {
  const SampleBuilder in_us = machine(0.05, 1);
  const std::string expected = text_of(fit_profile(in_us.samples));
  const std::int64_t expected_ns = step_ns(fit_profile(in_us.samples));
  for (const auto& [unit, factor] : {std::pair{"s", 1e-6}, {"ms", 1e-3}, {"ns", 1e3}}) {
    Samples other = in_us.samples;
    for (Sample& sample : other.samples) {
      sample.unit = unit;
      for (double& value : sample.values) value *= factor;
      for (double& value : sample.issue_values) value *= factor;
    }
    CHECK(text_of(fit_profile(other)) == expected);
    CHECK(step_ns(fit_profile(other)) == expected_ns);
  }
}

TEST_CASE("samples in any order: the same profile, byte for byte", "[fit]") {
  Samples samples = machine(0.05, 2).samples;
  // Doubts and duplicates too must not depend on the order.
  samples.samples[3].warmup = 0;
  samples.samples[8].warmup = 0;
  samples.samples.push_back(samples.samples[5]);
  samples.samples.back().kernels = {{"b", 1, 1, 1, 1}};
  samples.samples[5].kernels = {{"a", 2, 1, 1, 1}};
  const std::string expected = text_of(fit_profile(samples));
  std::mt19937 random(4);
  for (int trial = 0; trial < 10; ++trial) {
    std::shuffle(samples.samples.begin(), samples.samples.end(), random);
    CHECK(text_of(fit_profile(samples)) == expected);
  }
}

TEST_CASE("a machine with 3 % noise and bad values in between is recovered within 4 %", "[fit]") {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    const CostProfile exact = fit_profile(machine(0, 0).samples);
    const CostProfile noisy = fit_profile(machine(0.03, seed).samples);
    REQUIRE(exact.curves.size() == noisy.curves.size());
    for (std::size_t c = 0; c < exact.curves.size(); ++c) {
      const Curve& curve = noisy.curves[c].curve;
      CHECK(curve.left_out.empty());
      for (const CurvePoint& point : exact.curves[c].curve.points) {
        CHECK(read_curve(curve, point.size).time_ns == Approx(point.time_ns).epsilon(0.04));
      }
    }
    CHECK(static_cast<double>(step_ns(noisy)) == Approx(static_cast<double>(step_ns(exact))).epsilon(0.02));
    const Curve* link = noisy.find([] {
      MeasuredKey key = SampleBuilder::transfer_key(0, 1, 0);
      return key;
    }());
    REQUIRE(link != nullptr);
    REQUIRE(link->line.has_value());
    CHECK(link->line->latency_ns == Approx(10e3).epsilon(0.05));
    CHECK(link->line->size_per_s == Approx(40e9).epsilon(0.05));
    CHECK(link->line->max_residual < 0.06);
  }
}

TEST_CASE("an exact machine: the step of a plan is what its formulas say", "[fit]") {
  Samples samples = machine(0, 0).samples;
  samples.environment["peak_flops_per_s"] = {{"fp32", 1e14}};
  const CostProfile profile = fit_profile(samples);
  const Plan plan = make_plan(spec("--gpus 1 --depth 3 --dim 128 --batch 32 --microbatches 1"));
  const PricedWork priced = price_by_profile(plan, profile);
  CHECK(priced.warnings == std::vector<std::string>{});
  const double layer_us = 5 + 2.0 * 32 * 128 * 128 / 1e6;
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    const TaskKind kind = plan.graph.works[w].kind;
    if (kind == TaskKind::forward) CHECK(priced.costs[w].device_ns == std::llround(3 * layer_us * 1e3));
    if (kind == TaskKind::forward) CHECK(priced.costs[w].issue_ns == 9000);
  }
}

TEST_CASE("outliers among sizes are left out of the curve and named", "[fit]") {
  Samples samples = machine(0.02, 3).samples;
  for (Sample& sample : samples.samples) {
    if (sample.key.probe != Probe::transfer || sample.key.from != 0 || sample.key.size != 65536) continue;
    for (double& value : sample.values) value *= 6;
  }
  const CostProfile profile = fit_profile(samples);
  const Curve* curve = profile.find(SampleBuilder::transfer_key(0));
  REQUIRE(curve != nullptr);
  REQUIRE(curve->left_out.size() == 1);
  CHECK(curve->left_out[0].size == 65536);
  CHECK(read_curve(*curve, 65536).time_ns / 1e3 == Approx(10 + 65536 / 40e3).epsilon(0.15));
}

TEST_CASE("a collective is a curve like any other", "[fit]") {
  SampleBuilder b;
  for (const BytesAndTimes& row : read_table("C02_h100x8_allreduce.csv")) {
    b.add(SampleBuilder::all_reduce_key(row.bytes), {row.times_us[0]}, "us", 0);
  }
  const CostProfile profile = fit_profile(b.samples);
  CHECK(only_curve(profile).left_out.size() == 2);
  CHECK(read_curve(only_curve(profile), 1LL << 35).time_ns == Approx(2 * 62648e3).epsilon(0.01));
}

// ---- measurements that cannot be

SampleBuilder on_h100() {
  SampleBuilder b;
  b.samples.environment = {{"device", "cuda"}, {"card", "NVIDIA H100 80GB HBM3"}, {"count", 4}};
  return b;
}

std::string refusal(const Samples& samples) {
  try {
    fit_profile(samples, "s.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

TEST_CASE("faster than the card's peak: refused, with what it implies", "[fit]") {
  SampleBuilder b = on_h100();
  b.layer(4096, 4096, {0.03, 0.03, 0.03}, "ms");  // 137 GFLOP in 30 us
  CHECK_THAT(
      refusal(b.samples),
      ContainsSubstring("s.json: layer pipeline forward fp32 4096x4096, rows 4096: found 30 us, 4.58e+15 FLOP/s") &&
          ContainsSubstring("6.69e+13 FLOP/s, the peak of H100 (fp32)"));
}

TEST_CASE("a third of the values too fast to be: refused, though the median is fine", "[fit]") {
  SampleBuilder b = on_h100();
  b.layer(4096, 4096, {9, 2.7, 0.03, 2.7, 2.7, 0.03, 2.7}, "ms");
  CHECK_THAT(refusal(b.samples), ContainsSubstring("the peak of H100"));
}

TEST_CASE("the peak is that of the data type and of the operation", "[fit]") {
  const auto us_at_peak = [](double flops_per_s, double passes) {
    return passes * 2 * std::pow(4096, 3) / flops_per_s * 1e6;
  };
  for (const auto& [dtype, peak] : {std::pair{Dtype::fp32, 66.9e12},
                                    {Dtype::tf32, 494.7e12},
                                    {Dtype::amp_fp16, 989.4e12},
                                    {Dtype::amp_bf16, 989.4e12}}) {
    for (const auto& [operation, passes] : {std::pair{"forward", 1}, {"backward", 2}, {"backward_weight", 1}}) {
      for (const double factor : {0.98, 1.02}) {
        SampleBuilder b = on_h100();
        const double us = us_at_peak(peak, passes) * factor;
        b.layer(4096, 4096, {us, us}).key.operation = operation;
        b.samples.samples[0].key.dtype = dtype;
        INFO(to_string(dtype) << " " << operation);
        CHECK((refusal(b.samples) == "not refused") == (factor > 1));
      }
    }
  }
}

TEST_CASE("a card that nobody knows is not judged, unless the file says its peak", "[fit]") {
  SampleBuilder b;
  b.layer(4096, 4096, {0.03, 0.03}, "ms");
  CHECK(refusal(b.samples) == "not refused");
  b.samples.environment["peak_flops_per_s"] = {{"fp32", 1e14}};
  CHECK_THAT(refusal(b.samples), ContainsSubstring("the peak of Test CPU"));
  SampleBuilder known = on_h100();
  known.layer(4096, 4096, {0.03, 0.03}, "ms");
  known.samples.environment["peak_flops_per_s"] = {{"fp32", 1e20}};  // a file cannot talk the card faster
  CHECK_THAT(refusal(known.samples), ContainsSubstring("the peak of H100"));
}

TEST_CASE("a GPU that nobody knows: a warning in the profile, and what no GPU reaches is refused", "[fit]") {
  const auto on = [](const std::string& card, double ms) {
    SampleBuilder b;
    b.samples.environment["device"] = "cuda";
    b.samples.environment["card"] = card;
    b.layer(4096, 4096, {ms, ms, ms}, "ms");
    return b;
  };
  CHECK_THAT(refusal(on("NVIDIA GeForce RTX 4090", 0.03).samples),
             ContainsSubstring("4.58e+15 FLOP/s") && ContainsSubstring("the peak of any GPU (fp32)"));
  const CostProfile fitted = fit_profile(on("NVIDIA GeForce RTX 4090", 3).samples);
  CHECK(std::count_if(fitted.warnings.begin(), fitted.warnings.end(), [](const std::string& warning) {
          return warning.starts_with(
              "speeds were held only against what no GPU reaches: nothing is known of NVIDIA GeForce RTX 4090");
        }) == 1);
  const CostProfile known = fit_profile(on("NVIDIA H200", 3).samples);
  CHECK(std::none_of(known.warnings.begin(), known.warnings.end(),
                     [](const std::string& warning) { return warning.find("were held") != std::string::npos; }));
}

TEST_CASE("faster than a link or than memory: refused", "[fit]") {
  SampleBuilder link = on_h100();
  link.transfer(1 << 28, {100, 100});  // 2.7 TB/s
  CHECK_THAT(refusal(link.samples), ContainsSubstring("transfer copy 0 -> 1") && ContainsSubstring("a link of H100"));
  SampleBuilder memory = on_h100();
  MeasuredKey key;
  key.probe = Probe::optimizer;
  key.implementation = "pipeline";
  key.optimizer = "sgd";
  key.size = 500000000;
  memory.add(key, {300, 300});  // 6 GB in 300 us
  CHECK_THAT(refusal(memory.samples), ContainsSubstring("the memory of H100"));
  // A gelu does so few FLOPs that no peak could tell: 4096 x 8192 numbers read and written are 268 MB, 80 us at 3.35
  // TB/s.
  for (const double us : {9.4, 90.0}) {
    SampleBuilder gelu = on_h100();
    MeasuredKey layer;
    layer.probe = Probe::layer;
    layer.implementation = "autograd";
    layer.operation = "forward";
    layer.dtype = Dtype::fp32;
    layer.layer = layer_of_width(*find_layer_kind("gelu"), 8192);
    layer.size = 4096;
    gelu.add(layer, {us, us});
    CHECK((refusal(gelu.samples) == "not refused") == (us > 80));
  }
}

/// The ring of the table, at 480 GB/s of "bus bandwidth", is above the links: the switches add up.
TEST_CASE("collectives faster than the links: refused, by what must move whatever the algorithm", "[fit]") {
  // bytes that must pass a card one way over bytes of the buffer, 8 ranks
  for (const auto& [operation, share] : {std::pair{"all_reduce", 1.0},
                                         {"broadcast", 1.0},
                                         {"reduce", 1.0},
                                         {"all_gather", 0.875},
                                         {"reduce_scatter", 0.875}}) {
    for (const double factor : {0.98, 1.02}) {
      SampleBuilder b = on_h100();
      const double us = share * static_cast<double>(1 << 30) / 450e9 * 1e6 * factor;
      MeasuredKey key = SampleBuilder::all_reduce_key(1 << 30);
      key.operation = operation;
      b.add(key, {us, us});
      INFO(operation);
      CHECK((refusal(b.samples) == "not refused") == (factor > 1));
    }
  }
  SampleBuilder gloo = on_h100();
  MeasuredKey key = SampleBuilder::all_reduce_key(1 << 30);
  key.transport = "gloo";
  gloo.add(key, {1, 1});
  CHECK(refusal(gloo.samples) == "not refused");
}

TEST_CASE("C02 is not too fast for its links, C05 is read back within 5 %", "[fit]") {
  SampleBuilder h100 = on_h100();
  for (const BytesAndTimes& row : read_table("C02_h100x8_allreduce.csv"))
    h100.add(SampleBuilder::all_reduce_key(row.bytes), {row.times_us[1]}, "us", 0);
  CHECK(refusal(h100.samples) == "not refused");
  SampleBuilder pcie;
  const std::vector<BytesAndTimes> table = read_table("C05_pcie_x4_allreduce.csv");
  for (const BytesAndTimes& row : table) pcie.add(SampleBuilder::all_reduce_key(row.bytes), {row.times_us[0]}, "us", 0);
  const CostProfile profile = fit_profile(pcie.samples);
  REQUIRE(only_curve(profile).line.has_value());
  CHECK(only_curve(profile).line->max_residual < 0.05);
  for (const BytesAndTimes& row : table)
    CHECK(read_curve(only_curve(profile), row.bytes).time_ns / 1e3 == Approx(row.times_us[0]).epsilon(0.05));
}

TEST_CASE("big messages: positive, increasing, in proportion where bandwidth rules", "[fit]") {
  SampleBuilder b;
  for (const BytesAndTimes& row : read_table("C02_h100x8_allreduce.csv"))
    b.add(SampleBuilder::all_reduce_key(row.bytes), {row.times_us[1]}, "us", 0);
  const CostProfile profile = fit_profile(b.samples);
  double last_ns = 0;
  for (const std::int64_t bytes :
       {(1LL << 31) - 1, 1LL << 31, (1LL << 32) + 1, 6467616768LL, 12935233536LL, 1LL << 40}) {
    const double ns = read_curve(only_curve(profile), bytes).time_ns;
    CHECK(ns > last_ns);
    last_ns = ns;
  }
  CHECK(read_curve(only_curve(profile), 12935233536LL).time_ns /
            read_curve(only_curve(profile), 6467616768LL).time_ns ==
        Approx(2).epsilon(0.01));
}

TEST_CASE("buckets, unscale, AMP layers and overlaps go through samples and profile", "[fit]") {
  SampleBuilder b = on_h100();
  MeasuredKey bucket, unscale, overlap = overlap_key("all_reduce", 4);
  bucket.probe = Probe::bucket;
  bucket.operation = "copy_in";
  unscale.probe = Probe::optimizer;
  unscale.implementation = "autograd";
  unscale.optimizer = "unscale";
  overlap.name = "communication";
  bucket.size = unscale.size = overlap.size = 1 << 20;
  MeasuredKey slower = overlap;
  slower.size = 1 << 24;
  b.add(bucket, {9, 5.0, 5.0});
  b.add(unscale, {9, 7.0, 7.0});
  b.add(overlap, {9, 300, 300});
  b.add(slower, {9, 200, 200});  // beside kernels more bytes may take less: nothing is left out
  const Samples again = samples_from_json(nlohmann::json(to_json(b.samples)), "s.json");
  const CostProfile profile = profile_from_json(nlohmann::json(to_json(fit_profile(again))), "p.json");
  REQUIRE(profile.of(Probe::bucket).size() == 1);
  CHECK(read_curve(profile.of(Probe::bucket)[0].curve, 1 << 20).time_ns == 5000);
  REQUIRE(profile.of(Probe::overlap).size() == 1);
  CHECK(profile.of(Probe::overlap)[0].key.rows == 512);
  CHECK(profile.of(Probe::overlap)[0].curve.points.size() == 2);
  CHECK(describe(overlap) == "overlap communication all_reduce nccl of 4 fp32 4096x4096, rows 512, bytes 1048576");
  b.samples.samples.back().key.rows = 0;
  CHECK_THAT(refusal(b.samples), ContainsSubstring("rows"));
}

TEST_CASE("times that stay flat while the work grows a hundredfold: flagged", "[fit]") {
  for (const char* what : {"rows", "width"}) {
    SampleBuilder b = on_h100();
    for (const std::int64_t step : {1, 2, 4, 8, 16}) {
      const std::int64_t dim = std::string(what) == "width" ? 64 * step : 256;
      const std::int64_t rows = std::string(what) == "width" ? 64 : 16 * step * step;
      b.layer(dim, rows, {0.03, 0.0301, 0.0299}, "ms");
    }
    INFO(what);
    CHECK(warns(fit_profile(b.samples), "not synchronised?"));
  }
}

TEST_CASE("times that grow with the work, or whose kernels were seen to take as long, are not flagged", "[fit]") {
  SampleBuilder grows = on_h100();
  for (const std::int64_t rows : {16, 64, 256, 1024, 4096})
    grows.layer(1024, rows, {1, 10.0 + static_cast<double>(rows) / 10});
  CHECK(fit_profile(grows.samples).warnings.size() == 1);  // no issue times
  SampleBuilder seen = on_h100();
  for (const std::int64_t rows : {16, 64, 256, 1024, 4096}) {
    Sample& sample = seen.layer(1024, rows, {200, 200.0});
    sample.issue_values = {1, 1};
    sample.kernels = {{"gemm", 2 + 0.15 * static_cast<double>(rows) / 4, 1, 1, 1}};
  }
  CHECK(fit_profile(seen.samples).warnings.empty());
}

TEST_CASE("flat transfers and optimizers are flagged beyond the sizes that a latency explains", "[fit]") {
  SampleBuilder small, large;
  for (const std::int64_t kib : {1, 4, 16, 64, 256}) small.transfer(1024 * kib, {9, 9});
  CHECK(fit_profile(small.samples).warnings.empty());
  for (const std::int64_t mib : {1, 4, 16, 64, 256}) large.transfer(1024 * 1024 * mib, {9, 9});
  CHECK(warns(fit_profile(large.samples), "not synchronised?"));
}

TEST_CASE("a layer beside messages is as long whatever their size, a message is not", "[fit]") {
  MeasuredKey key = overlap_key("send_receive", 2);
  for (const char* name : {"compute", "compute_alone", "communication"}) {
    SampleBuilder b = on_h100();
    key.name = name;
    for (const std::int64_t mib : {1, 16, 256}) {
      key.size = mib << 20;
      b.add(key, {364, 364, 365});
    }
    CAPTURE(name);
    CHECK(warns(fit_profile(b.samples), "not synchronised?") == (key.name == "communication"));
  }
}

TEST_CASE("an operation shorter than its own kernels: flagged", "[fit]") {
  SampleBuilder b = on_h100();
  Sample& sample = b.layer(1024, 64, {10, 10});
  sample.kernels = {{"gemm", 30, 1, 1, 1}};
  sample.issue_values = {1, 1};
  CHECK(warns(fit_profile(b.samples), "less than its kernels, 30 us"));
}

TEST_CASE("no host time of issue on a GPU: doubted", "[fit]") {
  SampleBuilder b = on_h100();
  b.layer(1024, 64, {10, 10});
  CHECK(warns(fit_profile(b.samples), "no host time of issue"));
}

TEST_CASE("host and memory alone are no profile", "[fit]") {
  SampleBuilder b;
  MeasuredKey host;
  host.probe = Probe::host;
  host.name = "step_overhead";
  b.add(host, {2, 2});
  CHECK_THAT(refusal(b.samples), ContainsSubstring("host and memory only"));
}

TEST_CASE("the median of memory, in whole bytes", "[fit]") {
  SampleBuilder b;
  b.transfer(1024, {2, 2});
  MeasuredKey memory;
  memory.probe = Probe::memory;
  memory.name = "workspace";
  b.add(memory, {100, 101, 0}, "bytes", 0);
  const CostProfile profile = fit_profile(b.samples);
  REQUIRE(profile.memory.size() == 1);
  CHECK(profile.memory[0].bytes == 100);
  CHECK(profile.memory[0].count == 3);
}

TEST_CASE("a profile is named after its card and count", "[fit]") {
  Environment environment;
  environment.card = "NVIDIA H100 80GB HBM3";
  environment.count = 4;
  CHECK(profile_name(environment) == "nvidia-h100-80gb-hbm3-x4");
  CHECK(profile_name(Environment{}) == "unnamed");
  SampleBuilder b;
  b.transfer(1024, {2, 2});
  CHECK(fit_profile(b.samples).name == "test-cpu-x2");
  CHECK(fit_profile(b.samples, "s.json", "mine").name == "mine");
}

TEST_CASE("the summary counts what was measured", "[fit]") {
  const std::vector<FitSummaryRow> rows = summarize_profile(fit_profile(machine(0, 0).samples));
  REQUIRE(rows.size() == 8);
  CHECK(rows[0].what == "layer pipeline fp32");
  CHECK(rows[0].curves == 15);
  CHECK(rows[0].points == 45);
  CHECK(rows[0].measurements == 675);
  CHECK(rows[0].spread == 0.0);
  CHECK_FALSE(rows[0].line_residual.has_value());
  CHECK(rows[3].what == "transfer copy");
  CHECK(rows[3].least == 1024);
  CHECK(rows[3].largest == 1 << 26);
  CHECK(*rows[3].line_residual < 1e-4);
}

}  // namespace
}  // namespace pdl
