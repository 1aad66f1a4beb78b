#include "sim/study/configuration_search.hpp"

#include <random>
#include <sstream>

#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/report/search_document.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/setting_pairs.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

ConfigurationSearch search(const std::string& text, const CostProfile* profile, const SearchOptions& options = {}) {
  return search_configurations(configuration_space(words(text)), profile, options);
}

std::string line(const SearchRow& row) {
  std::string text;
  for (const SettingValue& word : row.words) text += word.name + " " + word.value + " ";
  return text;
}

/// The best, each with its step time.
std::vector<std::string> best_of(const ConfigurationSearch& found) {
  std::vector<std::string> all;
  for (const std::size_t row : found.best)
    all.push_back(line(found.rows[row]) + std::to_string(found.rows[row].step->step_time_ms));
  return all;
}

/// The search and the exhaustive one find the same.
void check_like_exhaustive(const std::string& text, const CostProfile* profile, SearchOptions options) {
  INFO(text);
  const ConfigurationSearch found = search(text, profile, options);
  options.exhaustive = true;
  const ConfigurationSearch all = search(text, profile, options);
  CHECK(best_of(found) == best_of(all));
  CHECK(found.rows.size() == all.rows.size());
  CHECK(found.predicted() <= all.predicted());
  CHECK(found.least_memory == all.least_memory);
  CHECK(found.faster_with_more_memory == all.faster_with_more_memory);
}

}  // namespace

TEST_CASE(
    "textbook costs: the zero-bubble schedule with steps that overlap wins, and all others are behind by bubbles") {
  const ConfigurationSearch found = search("gpus 4 microbatches 8 tf 1 tb 1 tw 1 recompute 0", nullptr);
  REQUIRE_FALSE(found.best.empty());
  CHECK_THAT(line(found.rows[found.best[0]]), ContainsSubstring("schedule zb-h2"));
  CHECK(found.rows[found.best[0]].step->step_time_ms == 24);
  CHECK(found.rows[found.best[1]].behind == Drawback::bubble);
  CHECK(found.count(Drawback::refused) == 0);
  CHECK_FALSE(found.memory_limit_bytes);
}

TEST_CASE("the best are those of an exhaustive search: textbook costs") {
  std::mt19937 random(3);
  const auto one_of = [&](int from, int to) {
    return std::to_string(from + static_cast<int>(random() % static_cast<unsigned>(to - from + 1)));
  };
  for (int i = 0; i < 20; ++i) {
    std::string text = "gpus " + one_of(1, 5) + " microbatches " + one_of(1, 9) + " chunks " + one_of(1, 2) + " tf " +
                       one_of(1, 9) + " tb " + one_of(1, 9) + " tcomm " + one_of(0, 3) + " accum " + one_of(1, 2);
    if (random() % 2) text += " tw " + one_of(1, 9);
    SearchOptions options;
    options.best = 1 + random() % 4;
    if (random() % 2) options.memory_limit_bytes = 1 + static_cast<std::int64_t>(random() % (std::int64_t{1} << 33));
    check_like_exhaustive(text, nullptr, options);
  }
}

TEST_CASE("the best are those of an exhaustive search: a bundled profile, and limits of memory") {
  const CostProfile profile = load_profile(PDL_SOURCE_DIR "/data/h200x4/profile.json");
  std::mt19937 random(5);
  const auto one_of = [&](int from, int to) {
    return from + static_cast<int>(random() % static_cast<unsigned>(to - from + 1));
  };
  for (int i = 0; i < 6; ++i) {
    const int dim = 512 * one_of(1, 8), depth = one_of(2, 6);
    const std::string text = "gpus " + std::to_string(one_of(1, 4)) + " depth " + std::to_string(depth) + " dim " +
                             std::to_string(dim) + " batch " + std::to_string(one_of(3, 64)) +
                             (random() % 2 ? " optimizer adam" : "");
    SearchOptions options;
    options.best = 1 + random() % 10;
    const std::int64_t parameters_bytes = std::int64_t{4} * dim * dim * depth;
    if (i > 0) options.memory_limit_bytes = parameters_bytes * one_of(1, 5);
    check_like_exhaustive(text, &profile, options);
  }
}

TEST_CASE("the best are those of an exhaustive search: data parallel programs, replicas of pipelines, number formats") {
  const CostProfile profile = load_profile(PDL_SOURCE_DIR "/data/h200x4/profile.json");
  for (const char* text :
       {"gpus 4 depth 4 dim 2048 batch 256 strategy ddp,dp,mp",
        "gpus 6 depth 4 dim 1024 batch 96 strategy ddp,dp accum 2", "gpus 8 depth 4 dim 4096 batch 64 dp 2,4",
        "gpus 4 depth 3 dim 512 batch 64 dtype any strategy ddp,dp,mp", "gpus 4 depth 2 dim 256 batch 16",
        "gpus 2 depth 4 dim 4096 batch 256 program any", "gpus 4 depth 4 dim 2048 batch 512 dp 4 strategy pp"}) {
    for (const std::size_t best : {1, 10}) {
      SearchOptions options;
      options.best = best;
      check_like_exhaustive(text, &profile, options);
      options.memory_limit_bytes = std::int64_t{200} << 20;
      check_like_exhaustive(text, &profile, options);
    }
  }
}

TEST_CASE("what is as fast as the first is behind by nothing") {
  const ConfigurationSearch found = search("gpus 4 microbatches 4 chunks 2 tf 1 tb 2", nullptr);
  const double first_ms = found.rows[found.best.front()].step->step_time_ms;
  for (const std::size_t row : found.best) {
    const SearchRow& one = found.rows[row];
    CHECK((one.behind == Drawback::none) == (one.step->step_time_ms == first_ms));
  }
}

TEST_CASE("of many replicas only those are predicted that could be among the best") {
  const CostProfile profile = load_profile(PDL_SOURCE_DIR "/data/h200x4/profile.json");
  const ConfigurationSearch found = search("gpus 16 depth 16 dim 8192", &profile);
  CHECK(found.predicted() < found.rows.size() / 4);
  for (const SearchRow& row : found.rows) {
    if (row.step && row.replica) CHECK(static_cast<double>(row.replica->step_ns) / 1e6 <= row.step->step_time_ms);
  }
}

TEST_CASE("the same for any number of threads, to the byte of the document") {
  const CostProfile profile = tiny_profile();
  const std::string text = "gpus 4 depth 8 dim 64 batch 256";
  const std::string one = to_json(search_document(search(text, &profile))).dump();
  SearchOptions options;
  options.threads = 4;
  CHECK(to_json(search_document(search(text, &profile, options))).dump() == one);
}

TEST_CASE("a row is what the prediction of its command line is") {
  const CostProfile profile = tiny_profile();
  const ConfigurationSearch found = search("gpus 2 depth 4 dim 64 batch 128", &profile);
  REQUIRE(found.best.size() == 10);
  for (const std::size_t row : found.best) {
    const RunResult run = predict(parse_run_spec(found.rows[row].words), &profile);
    CHECK(found.rows[row].step->step_time_ms == run.step_time.median_ms);
  }
}

TEST_CASE("where nothing fits: the one that needs least, and what it needs") {
  const CostProfile profile = tiny_profile();
  SearchOptions options;
  options.memory_limit_bytes = 1000;
  const ConfigurationSearch found = search("gpus 4 depth 8 dim 64 batch 256", &profile, options);
  CHECK(found.best.empty());
  REQUIRE(found.least_memory);
  const std::int64_t least = *found.rows[*found.least_memory].needed_memory_bytes;
  CHECK_THAT(found.nothing_fits(), ContainsSubstring("the least is ") && ContainsSubstring("by pdl-sim --"));
  // With so much it fits, with a byte less it does not.
  options.memory_limit_bytes = least;
  CHECK_FALSE(search("gpus 4 depth 8 dim 64 batch 256", &profile, options).best.empty());
  options.memory_limit_bytes = least - 1;
  CHECK(search("gpus 4 depth 8 dim 64 batch 256", &profile, options).best.empty());
}

TEST_CASE("with more memory another one would win") {
  const CostProfile profile = tiny_profile();
  const ConfigurationSearch free = search("gpus 2 depth 4 dim 64 batch 256 strategy pp pp 2", &profile);
  SearchOptions options;
  options.memory_limit_bytes = free.rows[free.best[0]].step->peak_memory_bytes - 1;
  const ConfigurationSearch tight = search("gpus 2 depth 4 dim 64 batch 256 strategy pp pp 2", &profile, options);
  REQUIRE(tight.faster_with_more_memory);
  CHECK(tight.rows[*tight.faster_with_more_memory].step->step_time_ms == free.rows[free.best[0]].step->step_time_ms);
  CHECK(tight.rows[*tight.faster_with_more_memory].loss == Drawback::memory);
}

TEST_CASE("every configuration is among the best or has lost by something") {
  const CostProfile profile = tiny_profile();
  const ConfigurationSearch found = search("gpus 8 depth 4 dim 64 batch 30", &profile);
  std::size_t sum = found.best.size();
  for (const Drawback loss : {Drawback::refused, Drawback::memory, Drawback::compute, Drawback::bubble,
                              Drawback::communication, Drawback::host})
    sum += found.count(loss);
  CHECK(sum == found.rows.size());
  CHECK(found.count(Drawback::none) == found.best.size());
}
