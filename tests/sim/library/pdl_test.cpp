// The library's functions: plain values in, plain values out.
#include "sim/library/pdl.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

/// (M + P - 1) x 3 ms: two GPUs and two micro-batches are 9 ms.
const Settings kTextbook = {{"gpus", "2"},         {"depth", "2"},        {"dim", "64"}, {"batch", "64"},
                            {"microbatches", "2"}, {"schedule", "gpipe"}, {"tf", "1"},   {"tb", "2"}};

std::string value_of(const Settings& settings, const std::string& name) {
  for (const Setting& setting : settings) {
    if (setting.name == name) return setting.value;
  }
  return "";
}

}  // namespace

TEST_CASE("the library predicts two stages and two micro-batches") {
  // GPU 0   F0 F1 .. B0 B0 B1 B1
  // GPU 1   .. F0 F1 ...            (drawn in the opening of sim/run/metrics.hpp)
  const Prediction step = pdl::predict(kTextbook);
  CHECK(step.step_time_ms == 9);
  CHECK(step.bound_ms == 9);
  CHECK(step.bubble_fraction == Approx(1 - 12.0 / 18));
  CHECK(step.throughput_samples_per_s == Approx(64 / 9e-3));
  CHECK(step.profile.empty());
  CHECK_FALSE(step.host_share);
  CHECK(step.parameters == 2 * (64 * 64 + 64));
  CHECK(step.transfers.count == 4);
  CHECK(step.transfers.bytes == 4 * 32 * 64 * 4);
  CHECK(step.collectives.count == 0);
  CHECK(value_of(step.settings, "optimizer") == "sgd");
  REQUIRE(step.gpus.size() == 2);
  for (const GpuPrediction& gpu : step.gpus) {
    CHECK(gpu.layers == 1);
    CHECK(gpu.busy_ms == 6);
    CHECK(gpu.communication_ms == 0);
    CHECK(gpu.idle_ms == 3);
    CHECK(gpu.peak_memory_bytes <= step.peak_memory_bytes);
  }
}

TEST_CASE("spans of the library are columns of equal length, in microseconds") {
  const SpanColumns spans = pdl::predict(kTextbook).spans();
  REQUIRE(spans.name.size() == spans.end_us.size());
  std::string of_last;
  for (std::size_t s = 0; s < spans.name.size(); ++s) {
    if (spans.worker[s] == 1 && spans.kind[s] == "forward") {
      of_last += spans.name[s] + " " + spans.stream[s] + " " + std::to_string(std::int64_t(spans.start_us[s])) + ".." +
                 std::to_string(std::int64_t(spans.end_us[s])) + "; ";
      CHECK(spans.stage[s] == 1);
    }
  }
  CHECK(of_last == "F0 compute 1000..2000; F1 compute 2000..3000; ");
}

TEST_CASE("a table of the library has every combination, and says what is refused") {
  Settings settings = kTextbook;
  settings[0].value = "1,2,4";
  const PredictedTable table = predict_all(settings, {.memory = "1GiB"});
  CHECK(table.varying == std::vector<std::string>{"gpus"});
  REQUIRE(table.rows.size() == 3);
  CHECK(table.rows[1].step_time_ms == 9);
  CHECK(table.rows[1].within_memory_limit);
  CHECK(table.rows[1].refused.empty());
  CHECK_THAT(table.rows[2].refused, ContainsSubstring("layers"));
  CHECK_FALSE(table.rows[2].within_memory_limit);
  CHECK(table.fastest == std::size_t{0});  // one GPU: textbook times are those of a stage, here the whole model
}

TEST_CASE("a row of a table has what was varied, the default too, and a prediction of nobody has no spans") {
  Settings settings = kTextbook;
  settings.push_back({"accum", "1,2"});
  const PredictedTable table = predict_all(settings);
  REQUIRE(table.rows.size() == 2);
  for (std::size_t r = 0; r < 2; ++r) {
    const auto accum = std::find_if(table.rows[r].settings.begin(), table.rows[r].settings.end(),
                                    [](const Setting& setting) { return setting.name == "accum"; });
    REQUIRE(accum != table.rows[r].settings.end());
    CHECK(accum->value == std::to_string(r + 1));
  }
  CHECK(Prediction().spans().name.empty());
  CHECK(Prediction().json().empty());
}

TEST_CASE("a plan of the library: the best first, and how many lost by what") {
  const Settings textbook = {{"gpus", "2"}, {"microbatches", "4"}, {"tf", "1"}, {"tb", "1"}, {"tw", "1"}};
  const PlannedTable table = plan(textbook, {.best = 3, .threads = 2});
  REQUIRE(table.best.size() == 3);
  CHECK(table.best[0].verdict == "fastest");
  CHECK(table.best[0].behind_by == "none");
  CHECK(table.best[0].step_time_ms <= table.best[1].step_time_ms);
  CHECK(table.best[1].step_time_ms <= table.best[2].step_time_ms);
  CHECK_FALSE(table.best[0].half_width_90_ms);  // of given costs
  CHECK_FALSE(table.memory_limit_bytes);
  CHECK(table.profile.empty());
  std::size_t lost = 0;
  for (const auto& [loss, count] : table.lost) lost += count;
  CHECK(lost + 3 == table.configurations);
  CHECK_THROWS_WITH(plan({{"gpus", "2"}, {"depth", "4"}}, {.profile = "h200x2", .memory = "1KiB"}),
                    ContainsSubstring("needs 1,024 bytes or less on every GPU; the least is "));
  CHECK_THROWS_WITH(plan({{"gpus", "1000000"}}), ContainsSubstring("gpus: found 1000000, expected at most 20000"));
  CHECK_THROWS_WITH(plan(textbook, {.best = 0}), ContainsSubstring("best: found 0, expected at least 1"));
}

TEST_CASE("the library refuses by name") {
  CHECK_THROWS_WITH(pdl::predict({{"gups", "2"}}), ContainsSubstring("gups") && ContainsSubstring("gpus"));
  CHECK_THROWS_WITH(pdl::predict({{"gpus", "0"}}), ContainsSubstring("gpus: found 0, expected"));
  CHECK_THROWS_AS(pdl::predict({}, {"no-such-profile", ""}), InputError);
  CHECK_THROWS_WITH(pdl::predict(kTextbook, {"h200x2", ""}), ContainsSubstring("beside synthetic costs"));
  CHECK_THROWS_WITH(pdl::predict(kTextbook, {"", "much"}), ContainsSubstring("memory: found much"));
  CHECK_THROWS_AS(pdl::predict(kTextbook, {"", "1KiB"}), CannotRun);
  CHECK_THROWS_WITH(predict_all({{"gups", "1,2"}}), ContainsSubstring("unknown setting gups, expected gpus"));
  CHECK_THROWS_WITH(predict_all(kTextbook, {.scaling = "linear"}),
                    ContainsSubstring("scaling: found linear, expected strong or weak"));
}

TEST_CASE("the library knows its profiles, its settings and its version") {
  std::string names;
  for (const KnownProfile& profile : known_profiles())
    names += profile.name + " x" + std::to_string(profile.count) + " ";
  CHECK_THAT(names, ContainsSubstring("h100x4 x4 h200x2 x2 h200x4 x4 "));
  const std::vector<KnownSetting> settings = known_settings();
  CHECK(settings.front().name == "model");
  for (const KnownSetting& setting : settings) CHECK_FALSE(setting.help.empty());
  CHECK(version().find_first_not_of("0123456789.") == std::string::npos);
}
