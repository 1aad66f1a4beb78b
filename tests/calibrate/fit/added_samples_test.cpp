#include "calibrate/fit/added_samples.hpp"

#include "sim/io/error.hpp"
#include "tests/calibrate/fit/sample_builder.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

TEST_CASE("samples of a plan behind those of a file, with what is known of each", "[added_samples]") {
  SampleBuilder of_file, of_plan;
  of_file.layer(64, 8, {9, 5, 5});
  of_file.samples.environment = {{"card", "NVIDIA H200"}, {"count", 2}, {"date", "1"}};
  of_plan.layer(96, 8, {9, 7, 7});
  of_plan.samples.environment = {{"card", "NVIDIA H200"}, {"count", 1}, {"date", "2"}, {"driver", "580"}};

  const Samples all = with_added(of_file.samples, of_plan.samples);
  REQUIRE(all.samples.size() == 2);
  CHECK(describe(all.samples[0].key) == "layer pipeline forward fp32 64x64, rows 8");
  CHECK(describe(all.samples[1].key) == "layer pipeline forward fp32 96x96, rows 8");
  CHECK(all.environment == nlohmann::json::parse(R"({"card": "NVIDIA H200", "count": 2, "date": "1",
                                                     "added": [{"count": 1, "date": "2"}]})"));
  const Samples twice = with_added(all, of_plan.samples);
  CHECK(twice.environment.at("added").size() == 2);
  CHECK(to_json(with_added(of_file.samples, Samples{})) == to_json(of_file.samples));  // nothing was missing
}

TEST_CASE("host times of Python are measured anew, and have versions of their own", "[added_samples]") {
  const auto host = [](const std::string& name, double us) {
    Sample sample;
    sample.key.probe = Probe::host;
    sample.key.name = name;
    sample.unit = "us";
    sample.values = {us};
    return sample;
  };
  Samples file, python;
  file.samples = {host("launch_latency", 3), host("python_forward", 100)};
  python.samples = {host("python_forward", 200), host("python_message", 70)};
  python.environment = {{"date", "2"}, {"python", {{"torch", "2.11.0"}}}};
  const Samples all = with_added(file, python);
  REQUIRE(all.samples.size() == 3);
  CHECK(all.samples[0].key.name == "launch_latency");
  CHECK(all.samples[1].values == std::vector<double>{200});
  CHECK(all.samples[2].key.name == "python_message");
  CHECK(all.environment["added"][0]["python"]["torch"] == "2.11.0");
  const nlohmann::json of_file = {{"device", "cuda"}, {"card", "NVIDIA H200"}, {"nccl", "2.28.3"}};
  nlohmann::json now = of_file;
  now["nccl"] = "2.28.9";
  CHECK_NOTHROW(check_same_card(of_file, now, "s.json", /*same_versions=*/false));
  CHECK_THROWS_AS(check_same_card(of_file, now, "s.json"), InputError);
}

TEST_CASE("another card or version is refused with what was found, another count is not", "[added_samples]") {
  const nlohmann::json file = {{"device", "cuda"}, {"card", "NVIDIA H200"}, {"count", 4},
                               {"cuda", "13.0"},   {"nccl", "2.28.9"},      {"torch", "2.11.0"}};
  nlohmann::json now = file;
  now["count"] = 1;
  now["driver"] = "590";
  CHECK_NOTHROW(check_same_card(file, now, "s.json"));
  now["torch"] = "2.12.0";
  CHECK_THROWS_WITH(
      check_same_card(file, now, "s.json"),
      ContainsSubstring("s.json: environment.torch: found \"2.11.0\", expected \"2.12.0\", as on this host"));
  now = file;
  now["card"] = "NVIDIA H100";
  CHECK_THROWS_AS(check_same_card(file, now, "s.json"), InputError);
  now = file;
  now.erase("nccl");
  CHECK_THROWS_WITH(check_same_card(file, now, "s.json"), ContainsSubstring("expected nothing"));
}

}  // namespace
}  // namespace pdl
