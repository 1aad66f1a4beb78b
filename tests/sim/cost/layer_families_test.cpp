#include "sim/cost/layer_families.hpp"

#include <algorithm>
#include <random>
#include <thread>

#include "sim/cost/layer_time.hpp"
#include "sim/cost/price.hpp"
#include "sim/io/error.hpp"
#include "sim/predict/step_of_plan.hpp"
#include "sim/study/sweep.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
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

MeasuredKey linear_key(const char* operation, const char* implementation = "autograd") {
  MeasuredKey key = ProfileBuilder::layer_key(operation, 512, 512, 64);
  key.implementation = implementation;
  key.layer = linear(512, 512);
  return key;
}

/// Adds a curve of one point, 64 rows, of a linear_relu, with its kernels in microseconds: "e10" is an elementwise one.
void add_relu(ProfileBuilder& b, MeasuredKey key, double us, const std::vector<std::string>& kernels) {
  key.layer = linear_relu(512, 512);
  key.size = 0;
  CurvePoint& point = b.add(key, {{64, us}}).points.front();
  for (const std::string& kernel : kernels) {
    const char* name = kernel[0] == 'e' ? "at::native::vectorized_elementwise_kernel" : "gemm";
    point.kernels.push_back({name, std::stod(kernel.substr(1)) * 1e3, 8, 1, 1});
  }
  point.issue_ns = HostSpread(1e3 * static_cast<double>(kernels.size()));
}

/// Casts, product, ReLU;  ReLU's, products, sum, cast, sum of what was there.
CostProfile profile_with_kernels() {
  ProfileBuilder b;
  add_relu(b, linear_key("forward"), 100, {"e5", "e2", "g83", "e10"});
  add_relu(b, linear_key("backward"), 220, {"e20", "g80", "g80", "r20", "e8", "e12"});
  add_relu(b, linear_key("backward_weight"), 110, {"g90", "r20"});
  return b.done();
}

double time_us(const CostProfile& profile, const MeasuredKey& key) {
  LayerFamilies families(profile);
  const std::shared_ptr<const LayerPrice> price = families.at(key);
  CHECK(price->said.texts().empty());
  CHECK(price->parts.front().of.layer == key.layer);
  return price->parts.front().device_ns / 1e3;
}

TEST_CASE("a linear is a linear_relu without the kernels of the ReLU", "[layer_families]") {
  const CostProfile profile = profile_with_kernels();
  CHECK(time_us(profile, linear_key("forward")) == Approx(90));
  CHECK(time_us(profile, linear_key("backward")) == Approx(200));
  CHECK(time_us(profile, linear_key("backward_weight")) == Approx(110));
  LayerFamilies families(profile);
  const LayerPart part = families.at(linear_key("forward"))->parts.front();
  CHECK(part.kernels->size() == 3);
  CHECK(part.half_width >= 0.1);  // what was taken away
  CHECK_FALSE(part.probed);
  CHECK(read_issue_ns(*part.issue, 64) == Approx(3e3));
  CHECK(families.has(linear_key("forward")));
}

TEST_CASE("what was measured of a linear takes the place of what is derived, and of nothing else", "[layer_families]") {
  CostProfile profile = profile_with_kernels();
  ProfileBuilder b;
  b.profile.curves = profile.curves;
  MeasuredKey own = linear_key("forward");
  own.size = 0;
  b.add(own, {{32, 50}, {64, 77}});
  profile = b.done();
  CHECK(time_us(profile, linear_key("forward")) == Approx(77));
  CHECK(time_us(profile, linear_key("backward")) == Approx(200));
  MeasuredKey fewer = linear_key("forward");
  fewer.size = 32;
  CHECK(time_us(profile, fewer) == Approx(50));
}

// Two streams: kernels are recorded from anywhere, some not at all.
TEST_CASE("a pipeline's whole backward loses the ReLU's that its input gradient has alone", "[layer_families]") {
  ProfileBuilder b;
  add_relu(b, linear_key("backward_input", "pipeline"), 110, {"e10", "g100"});
  for (const std::int64_t layers : {1, 4}) {
    MeasuredKey key = linear_key("backward", "pipeline");
    key.layers = layers;
    add_relu(b, key, layers == 1 ? 220 : 210, {"g100", "e40", "g90"});
  }
  const CostProfile profile = b.done();
  LayerFamilies families(profile);
  for (const std::int64_t layers : {1, 4}) {
    MeasuredKey key = linear_key("backward", "pipeline");
    key.layers = layers;
    CHECK(families.has(key));
    CHECK(time_us(profile, key) == Approx(layers == 1 ? 210 : 200));
  }
}

TEST_CASE("without kernels an activation takes what it moves", "[layer_families]") {
  ProfileBuilder b;
  add_relu(b, linear_key("forward"), 100, {});
  add_relu(b, linear_key("backward"), 200, {});
  const CostProfile profile = b.done();
  const double numbers = 64 * 512 * 4, best = bytes(linear_relu(512, 512), {LayerOperation::forward, 64}) / 100e3;
  CHECK(time_us(profile, linear_key("forward")) == Approx(100 - 2 * numbers / best / 1e3));
  CHECK(time_us(profile, linear_key("backward")) == Approx(200 - 3 * numbers / best / 1e3));
  MeasuredKey first = linear_key("backward_input");
  first.input_gradient = false;
  LayerFamilies families(profile);
  CHECK(families.at(first)->parts.empty());  // nobody needs it, and there is no ReLU
}

TEST_CASE("by the profiles of the repository no step of linear takes longer than one of linear_relu",
          "[layer_families]") {
  for (const char* name : {"h100x4", "h200x2", "h200x4"}) {
    const CostProfile profile = load_profile(std::string(PDL_SOURCE_DIR "/data/") + name + "/profile.json");
    LayerFamilies families(profile);
    for (const std::string flags : {"--workers one", "", "--gpus 2 --schedule gpipe --microbatches 4",
                                    "--gpus 2 --schedule zb-h1 --microbatches 4",
                                    "--gpus 2 --program pytorch --schedule 1f1b --microbatches 4"}) {
      for (const char* depth : {"2", "8"}) {
        for (const char* dtype : {"fp32", "tf32"}) {
          if (std::string(dtype) == "tf32" && std::string(name) == "h100x4") continue;
          RunSpec run =
              spec(std::string("--dim 4096 --batch 2048 --dtype ") + dtype + " --depth " + depth + " " + flags);
          const auto step_ns = [&](const Layer& layer) {
            run.model.layers.assign(run.model.layers.size(), layer);
            const Plan plan = make_plan(run);
            const PricedWork priced = price_at_full_clock(plan, &families);
            return run_plan(plan, priced).step_ns;
          };
          INFO(name << " " << dtype << " " << depth << " " << flags);
          CHECK(step_ns(linear(4096, 4096)) < step_ns(linear_relu(4096, 4096)));
        }
      }
    }
  }
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
