#include <algorithm>
#include <cmath>
#include <random>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/json_text.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pdl {
namespace {

CostProfile full_profile() {
  ProfileBuilder b;
  Curve& forward = b.layer("forward", 1024, {{64, 6.25}, {128, 11.123456}});
  forward.points[0].issue_ns = HostSpread(4000, 5000, 6000, 7000);
  forward.points[0].kernels = {{"gemm", 5000, 128, 1, 1}, {"relu", 500.5, 2048, 8, 2}};
  b.loss({{65536, 3}});
  b.optimizer("adam", {{1000, 2}});
  Curve& transfer = b.transfer("copy", 0, 1, {{1024, 5}, {1 << 20, 50}, {1 << 22, 200}});
  transfer.points[1].median_ns = 51000;
  transfer.left_out = {{2048, 900000, "sticks out"}};
  transfer.line = LineFit{3000, 2.1e10, 0.01, 0.05};
  MeasuredKey collective;
  collective.probe = Probe::collective;
  collective.operation = "all_reduce";
  collective.transport = "nccl";
  collective.ranks = 8;
  b.add(collective, {{8, 13}});
  b.host("step_overhead", 20).key.workers = 2;
  MeasuredKey workspace;
  workspace.probe = Probe::memory;
  workspace.implementation = "pipeline";
  workspace.name = "workspace";
  b.profile.memory.push_back({workspace, 8519680, 3});
  b.profile.warnings = {"a doubt"};
  b.profile.notes = {"a fact"};
  return b.done();
}

nlohmann::json document() {
  return nlohmann::json::parse(json_text(to_json(full_profile())));
}

std::string refusal(const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json changed = document();
  change(changed);
  try {
    profile_from_json(changed, "p.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

TEST_CASE("a profile as a file", "[profile]") {
  const std::string text = json_text(to_json(full_profile()));
  check_golden("profile.json", text);
  CHECK(json_text(to_json(profile_from_json(nlohmann::json::parse(text), "p.json"))) == text);
}

TEST_CASE("rows in any order give the same profile", "[profile]") {
  const std::string text = json_text(to_json(full_profile()));
  std::mt19937 random(3);
  for (int trial = 0; trial < 20; ++trial) {
    nlohmann::json shuffled = nlohmann::json::parse(text);
    for (auto& section : shuffled) {
      if (!section.is_array() || (!section.empty() && section[0].is_string())) continue;
      std::shuffle(section.begin(), section.end(), random);
      for (auto& curve : section) {
        if (curve.contains("points")) std::shuffle(curve["points"].begin(), curve["points"].end(), random);
      }
    }
    CHECK(json_text(to_json(profile_from_json(shuffled, "p.json"))) == text);
  }
}

/// Multiplies every time of a file by `factor`: the same file in another unit.
void scale_times(nlohmann::json& value, double factor) {
  if (!value.is_structured()) return;
  for (auto& [key, child] : value.items()) {
    static const std::vector<std::string> times = {"time",    "median", "p25",       "p75",       "p90",      "p95",
                                                   "latency", "issue",  "issue_p75", "issue_p90", "issue_p95"};
    const bool is_time = value.is_object() && std::find(times.begin(), times.end(), key) != times.end();
    if (is_time && child.is_number()) child = child.get<double>() * factor;
    scale_times(child, factor);
  }
}

TEST_CASE("the same profile in s, ms, us and ns is the same profile", "[profile]") {
  const std::string text = json_text(to_json(full_profile()));
  for (const auto& [unit, factor] : {std::pair{"ns", 1e3}, {"us", 1.0}, {"ms", 1e-3}, {"s", 1e-6}}) {
    nlohmann::json other = nlohmann::json::parse(text);
    scale_times(other, factor);
    other["units"]["time"] = unit;
    CHECK(json_text(to_json(profile_from_json(other, "p.json"))) == text);
  }
}

TEST_CASE("upper quantiles of the host's times: absent, the one below, in descending order, refused", "[profile]") {
  nlohmann::json file = nlohmann::json::parse(json_text(to_json(full_profile())));
  nlohmann::json& point = file["layers"][0]["points"][0];
  point.erase("issue_p75");
  point.erase("issue_p95");
  const CostProfile profile = profile_from_json(file, "p.json");
  for (const MeasuredCurve& measured : profile.of(Probe::layer)) {
    CHECK(measured.curve.points[0].issue_ns == HostSpread(4000, 4000, 6000, 6000));
  }
  point["issue_p90"] = 3.0;
  CHECK_THROWS_WITH(profile_from_json(file, "p.json"),
                    ContainsSubstring("issue_p90: found 3.0, expected at least the quantile below it"));
}

TEST_CASE("no unit, an unknown unit: refused", "[profile]") {
  CHECK_THAT(refusal([](auto& p) { p.erase("units"); }), ContainsSubstring("p.json: found no key \"units\""));
  CHECK_THAT(refusal([](auto& p) { p["units"].erase("time"); }),
             ContainsSubstring("p.json: units: found no key \"time\""));
  CHECK_THAT(refusal([](auto& p) { p["units"]["time"] = "fortnights"; }),
             ContainsSubstring("p.json: units.time: found \"fortnights\""));
  CHECK_THAT(refusal([](auto& p) { p["units"]["size"] = "KiB"; }), ContainsSubstring("p.json: units.size"));
}

TEST_CASE("what cannot be a profile is refused with its place", "[profile]") {
  const auto point = [](auto& p) -> nlohmann::json& { return p["layers"][0]["points"][1]; };
  const std::string at = "p.json: layers[0].points[1].";
  CHECK_THAT(refusal([&](auto& p) { point(p)["time"] = -1; }), ContainsSubstring(at + "time: found -1"));
  CHECK_THAT(refusal([&](auto& p) { point(p)["time"] = 0; }),
             ContainsSubstring(at + "time: found 0, expected a positive time"));
  CHECK_THAT(refusal([&](auto& p) { point(p)["time"] = std::nan(""); }), ContainsSubstring(at + "time"));
  CHECK_THAT(refusal([&](auto& p) { point(p)["time"] = nullptr; }), ContainsSubstring(at + "time: found null"));
  CHECK_THAT(refusal([&](auto& p) { point(p)["time"] = "6"; }), ContainsSubstring(at + "time"));
  CHECK_THAT(refusal([&](auto& p) { point(p)["time"] = 1e300; }), ContainsSubstring(at + "time"));
  CHECK_THAT(refusal([&](auto& p) { point(p)["rows"] = 1.5; }), ContainsSubstring(at + "rows"));
  CHECK_THAT(refusal([&](auto& p) { point(p)["rows"] = -4; }), ContainsSubstring(at + "rows"));
  CHECK_THAT(refusal([&](auto& p) { point(p)["tiem"] = 4; }),
             ContainsSubstring("\"tiem\"") && ContainsSubstring("\"time\" perhaps"));
  CHECK_THAT(refusal([&](auto& p) { point(p)["rows"] = 64; }), ContainsSubstring("rows 64 twice"));
  CHECK_THAT(refusal([](auto& p) { p["layers"].push_back(p["layers"][0]); }), ContainsSubstring("twice"));
  CHECK_THAT(refusal([](auto& p) { p["layers"][0]["points"] = nlohmann::json::array(); }),
             ContainsSubstring("at least one point"));
  CHECK_THAT(refusal([](auto& p) { p["layers"][0]["dtype"] = "fp8"; }),
             ContainsSubstring("layers[0].dtype: found \"fp8\""));
  CHECK_THAT(refusal([](auto& p) { p["layers"][0]["valid"]["rows"] = {1, 5000}; }),
             ContainsSubstring("layers[0].valid.rows"));
  CHECK_THAT(refusal([](auto& p) { p["layers"][0]["accumulate"] = true; }),
             ContainsSubstring("accumulate true with operation forward"));
  CHECK_THAT(refusal([](auto& p) { p["transfers"][0]["to"] = 0; }), ContainsSubstring("to itself"));
  CHECK_THAT(refusal([](auto& p) { p.erase("transfers"); }), ContainsSubstring("no key \"transfers\""));
  CHECK_THAT(refusal([](auto& p) { p["environment"]["count"] = "four"; }), ContainsSubstring("environment.count"));
  CHECK_THAT(refusal([](auto& p) { p["format"] = "pdl-samples-1"; }), ContainsSubstring("pdl-calibrate --from"));
  CHECK_THAT(refusal([](auto& p) { p = 3; }), ContainsSubstring("p.json: found 3, expected an object"));
  CHECK_THAT(refusal([](auto& p) {
               for (auto& section : p) {
                 if (section.is_array()) section = nlohmann::json::array();
               }
             }),
             ContainsSubstring("without any curve"));
}

TEST_CASE(
    "times of communication that fall, a spread the wrong way round, more blocks than any collective has: refused",
    "[profile]") {
  CHECK_THAT(refusal([](auto& p) { p["transfers"][0]["points"][2]["time"] = 1; }),
             ContainsSubstring("p.json: transfers[0].points: found 1.000000 us for bytes 4194304, expected at least "
                               "the 50.000000 us of 1048576"));
  CHECK_THAT(refusal([](auto& p) { p["layers"][0]["points"][0]["p25"] = 1e5; }),
             ContainsSubstring("points[0].p75") && ContainsSubstring("at least p25"));
  CHECK_THAT(
      refusal([](auto& p) {
        p["collectives"][0]["points"][0]["kernels"] = {
            {{"name", "ring"}, {"time", 5}, {"blocks", 1'000'000'000}, {"blocks_per_multiprocessor", 1}, {"count", 1}}};
      }),
      ContainsSubstring("1000000000 blocks of ring, expected at most 1024"));
}

TEST_CASE("a profile is written whole and read back from its path", "[profile]") {
  const TemporaryFolder folder;
  save_profile(full_profile(), folder / "profile.json");
  CHECK(load_profile(folder / "profile.json").curves.size() == 5);
  CHECK(load_profile(folder.path()).name == "test");
  CHECK_THROWS_AS(save_profile(full_profile(), folder / "no-such-folder/profile.json"), InputError);
}

TEST_CASE("every cut of a profile is refused", "[profile]") {
  const TemporaryFolder folder;
  const std::string text = json_text(to_json(full_profile()));
  for (std::size_t length = 0; length + 2 < text.size(); length += 37) {
    const std::string path = folder.write("cut.json", text.substr(0, length));
    CHECK_THROWS_WITH(load_profile(path), ContainsSubstring("cut.json"));
  }
}

TEST_CASE("JSON as text: what fits on a line is on one", "[profile]") {
  const nlohmann::ordered_json value = {{"b", 1}, {"a", {1.5, "x"}}};
  CHECK(json_text(value) == "{\"b\": 1, \"a\": [1.5, \"x\"]}\n");
  CHECK(json_text(value, 20) == "{\n  \"b\": 1,\n  \"a\": [1.5, \"x\"]\n}\n");
  CHECK(json_text(nlohmann::ordered_json::array()) == "[]\n");
}

}  // namespace
}  // namespace pdl
