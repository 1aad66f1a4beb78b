#include "sim/cost/layer_families.hpp"

#include <algorithm>
#include <random>
#include <thread>

#include "sim/cost/layer_time.hpp"
#include "sim/cost/price.hpp"
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

}  // namespace
}  // namespace pdl
