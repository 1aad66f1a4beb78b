#include "sim/cost/layer_families.hpp"

#include <algorithm>
#include <random>
#include <thread>

#include "sim/cost/layer_time.hpp"
#include "sim/cost/price.hpp"
#include "sim/io/error.hpp"
#include "sim/study/sweep.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/tiny_profile.hpp"

namespace pdl {
namespace {

CostProfile profile_of_widths() {
  ProfileBuilder b;
  for (const std::int64_t dim : {512, 1024, 4096}) {
    b.layer("forward", dim, {{64, 1e-3 * static_cast<double>(dim)}, {1024, 1e-2 * static_cast<double>(dim)}});
    b.layer("backward_input", dim, {{64, 2e-3 * static_cast<double>(dim)}});
    b.layer("backward_weight", dim, {{64, 3e-3 * static_cast<double>(dim)}});
  }
  return b.done();
}

std::vector<MeasuredKey> many_keys() {
  std::vector<MeasuredKey> keys;
  for (const char* operation : {"forward", "backward", "backward_weight"}) {
    for (std::int64_t dim = 256; dim <= 8192; dim += 256) {
      for (const std::int64_t rows : {16, 64, 100, 2048})
        keys.push_back(ProfileBuilder::layer_key(operation, dim, dim, rows));
    }
  }
  return keys;
}

struct Answer {
  std::vector<double> times_ns;
  std::vector<std::string> said;
  bool operator==(const Answer&) const = default;
};

Answer ask(LayerFamilies& families, const MeasuredKey& key) {
  Notices notices;
  LayerTimes times(families, Dtype::fp32, notices);
  Answer answer;
  for (const OperationTime& part : times.at(key)) answer.times_ns.push_back(part.device_ns);
  answer.said = notices.texts();
  return answer;
}

TEST_CASE("what was asked before changes no time and no notice", "[layer_families]") {
  const CostProfile profile = profile_of_widths();
  LayerFamilies shared(profile);
  std::vector<MeasuredKey> keys = many_keys();
  std::mt19937 random(7);
  for (int trial = 0; trial < 3; ++trial) {
    std::shuffle(keys.begin(), keys.end(), random);
    for (const MeasuredKey& key : keys) {
      LayerFamilies own(profile);
      CHECK(ask(shared, key) == ask(own, key));
    }
  }
}

TEST_CASE("many threads have the same answers", "[layer_families]") {
  const CostProfile profile = profile_of_widths();
  LayerFamilies shared(profile);
  const std::vector<MeasuredKey> keys = many_keys();
  std::vector<std::vector<Answer>> answers(4);
  {
    std::vector<std::jthread> threads;
    for (std::vector<Answer>& of_thread : answers) {
      threads.emplace_back([&] {
        for (const MeasuredKey& key : keys) of_thread.push_back(ask(shared, key));
      });
    }
  }
  for (const std::vector<Answer>& of_thread : answers) CHECK(of_thread == answers.front());
}

TEST_CASE("the step of a slow host has no warnings and no errors, and the same device times", "[layer_families]") {
  const CostProfile profile = tiny_profile();
  LayerFamilies families(profile);
  const Plan plan = make_plan(parse_run_spec(
      std::vector<SettingValue>{{"depth", "4", "--depth"}, {"dim", "100", "--dim"}, {"batch", "64", "--batch"}}));
  const PricedWork usual = price_by_profile(plan, families), slow = price_by_profile(plan, families, HostSpeed::slow);
  CHECK_FALSE(usual.warnings.empty());
  CHECK_FALSE(usual.errors.empty());
  CHECK(slow.warnings.empty());
  CHECK(slow.errors.empty());
  REQUIRE(slow.costs.size() == usual.costs.size());
  for (std::size_t w = 0; w < usual.costs.size(); ++w) CHECK(slow.costs[w].device_ns == usual.costs[w].device_ns);
}

TEST_CASE("a profile whose entries and points are in any order gives the same sweep, byte for byte",
          "[layer_families]") {
  const std::vector<SettingValue> given = {{"dim", "64,100", "--dim"},
                                           {"batch", "64:512:x2", "--batch"},
                                           {"gpus", "2", "--gpus"},
                                           {"schedule", "gpipe,1f1b", "--schedule"}};
  const CostProfile profile = tiny_profile();
  const std::string expected = sweep_json(run_sweep(given, &profile, {})).dump();
  std::mt19937 random(11);
  nlohmann::json file = nlohmann::json::parse(profile_text(profile));
  for (int trial = 0; trial < 10; ++trial) {
    for (const char* section : {"layers", "losses", "optimizers", "transfers", "host"}) {
      std::shuffle(file[section].begin(), file[section].end(), random);
      for (nlohmann::json& entry : file[section]) {
        if (entry.contains("points")) std::shuffle(entry["points"].begin(), entry["points"].end(), random);
      }
    }
    const CostProfile shuffled = profile_from_json(file, "p.json");
    SweepOptions options;
    options.threads = 1 + trial % 4;
    CHECK(sweep_json(run_sweep(given, &shuffled, options)).dump() == expected);
  }
}

TEST_CASE("a profile that is broken below its head ends a sweep, and is no refusal of its rows", "[layer_families]") {
  CostProfile profile = tiny_profile();
  profile.products = ProductsOfProfile(
      []() -> ProductModel { throw BrokenFile(InputError("p.json: products.choices[0]", "AAB", "letters")); });
  const std::vector<SettingValue> given = {
      {"dim", "64,100", "--dim"}, {"gpus", "2", "--gpus"}, {"schedule", "gpipe", "--schedule"}};
  CHECK_THROWS_AS(run_sweep(given, &profile, {}), BrokenFile);
}

struct Bar {
  double half_width = 0;
  std::string said;
};

Bar bar(const CostProfile& profile, Dtype dtype, std::int64_t width, std::int64_t rows) {
  Notices notices;
  LayerTimes times(profile, dtype, notices);
  MeasuredKey key = ProfileBuilder::layer_key("forward", width, width, rows);
  key.implementation = "autograd";
  key.dtype = dtype;
  Bar bar{times.at(key).front().half_width, {}};
  for (const std::string& text : notices.texts()) bar.said += text + "\n";
  return bar;
}

TEST_CASE("widths that the library has other kernels for, and sizes beyond all probes, have wider bars",
          "[layer_families]") {
  const CostProfile known = load_profile(PDL_SOURCE_DIR "/data/h200x2/profile.json");
  for (const auto& [dtype, aligned] : {std::pair{Dtype::tf32, 4}, {Dtype::amp_bf16, 8}}) {
    const Bar even = bar(known, dtype, 5440, 1000), odd = bar(known, dtype, 5440 + aligned / 2, 1000);
    CHECK(bar(known, dtype, 5440 + aligned, 1000).half_width < 0.3);
    CHECK(odd.half_width > even.half_width + 0.4);
    CHECK_THAT(odd.said, ContainsSubstring("takes other kernels"));
    CHECK(even.said.empty());
  }
  CHECK(bar(known, Dtype::fp32, 5441, 1000).half_width > bar(known, Dtype::fp32, 5440, 1000).half_width + 0.05);
  // Two and three doublings beyond 12,288 and 8,192 rows.
  const double asked = bar(known, Dtype::fp32, 24576, 100).half_width;
  CHECK(bar(known, Dtype::fp32, 49152, 100).half_width == Approx(asked + 0.1));
  CHECK(bar(known, Dtype::fp32, 1000, 65536).half_width ==
        Approx(bar(known, Dtype::fp32, 1000, 32768).half_width + 0.1));
  CHECK_THAT(bar(known, Dtype::fp32, 5440, 4).said, ContainsSubstring("layers of 4 rows"));
  CHECK(bar(known, Dtype::fp32, 5440, 4).half_width > 0.2);
  CHECK_THAT(bar(known, Dtype::fp32, 49152, 100).said, ContainsSubstring("4.0 times the largest width"));
}

TEST_CASE("straight lines between widths are known to be nothing far beyond them", "[layer_families]") {
  ProfileBuilder b;
  b.layer("forward", 512, {{64, 1.0}, {256, 4.0}});
  b.layer("forward", 1024, {{64, 4.0}, {256, 16.0}});
  const CostProfile profile = b.done();
  const auto half_width = [&](std::int64_t width, std::int64_t rows) {
    Notices notices;
    LayerTimes times(profile, Dtype::fp32, notices);
    return times.at(ProfileBuilder::layer_key("forward", width, width, rows)).front().half_width;
  };
  CHECK(half_width(700, 100) == Approx(0.15));
  CHECK(half_width(8192, 100) == Approx(0.15 + 3 * 0.3));
  CHECK(half_width(64, 100) == Approx(0.15 + 3 * 0.3));
  CHECK(half_width(700, 1024) == Approx(0.15 + 2 * 0.3));
}

/// forward: product, ReLU;  backward: ReLU's, product of the input, product of the weight, sum of the bias.
CostProfile profile_with_kernels() {
  ProfileBuilder b;
  const auto kernels = [](Curve& curve, const std::vector<std::pair<const char*, double>>& of_point) {
    for (const auto& [name, us] : of_point) curve.points.front().kernels.push_back({name, us * 1e3, 8, 1, 1});
  };
  kernels(b.layer("forward", 512, {{64, 100}}), {{"gemm", 90}, {"at::native::vectorized_elementwise_kernel", 10}});
  kernels(b.layer("backward", 512, {{64, 200}}), {{"at::native::vectorized_elementwise_kernel", 20},
                                                  {"gemm", 80},
                                                  {"gemm", 80},
                                                  {"at::native::reduce_kernel", 20}});
  kernels(b.layer("backward_weight", 512, {{64, 110}}), {{"gemm", 90}, {"at::native::reduce_kernel", 20}});
  return b.done();
}

TEST_CASE("a linear is a linear_relu without the kernels of the ReLU, until it is measured itself",
          "[layer_families]") {
  const auto time_us = [](const CostProfile& profile, const char* operation, const Layer& layer) {
    LayerFamilies families(profile);
    MeasuredKey key = ProfileBuilder::layer_key(operation, 512, 512, 64);
    key.layer = layer;
    const std::shared_ptr<const LayerPrice> price = families.at(key);
    CHECK(price->said.texts().empty());
    CHECK(price->parts.front().of.layer == layer);
    return std::pair(price->parts.front().device_ns / 1e3, price->parts.front().kernels->size());
  };
  const CostProfile profile = profile_with_kernels();
  CHECK(time_us(profile, "forward", linear_relu(512, 512)) == std::pair(100.0, std::size_t{2}));
  CHECK(time_us(profile, "forward", linear(512, 512)) == std::pair(90.0, std::size_t{1}));
  CHECK(time_us(profile, "backward", linear(512, 512)) == std::pair(180.0, std::size_t{3}));
  CHECK(time_us(profile, "backward_weight", linear(512, 512)) == std::pair(110.0, std::size_t{2}));

  ProfileBuilder b;
  b.profile.curves = profile.curves;
  MeasuredKey own = ProfileBuilder::layer_key("forward", 512, 512);
  own.layer = linear(512, 512);
  b.add(own, {{64, 77}}).points.front().kernels = {{"gemm", 77e3, 8, 1, 1}};
  CHECK(time_us(b.done(), "forward", linear(512, 512)).first == 77);
}

TEST_CASE("a product that has its ReLU in the epilogue takes as long without", "[layer_families]") {
  ProfileBuilder b;
  b.layer("forward", 512, {{64, 100}}).points.front().kernels = {{"gemm", 80e3, 8, 1, 1},
                                                                 {"cublasLt::splitKreduce_kernel", 20e3, 8, 1, 1}};
  const CostProfile profile = b.done();
  LayerFamilies families(profile);
  MeasuredKey key = ProfileBuilder::layer_key("forward", 512, 512, 64);
  key.layer = linear(512, 512);
  CHECK(families.at(key)->parts.front().device_ns == 100e3);
}

}  // namespace
}  // namespace pdl
