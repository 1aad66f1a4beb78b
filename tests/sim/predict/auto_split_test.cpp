// The split with the smallest largest stage: against every split there is, and from a profile.
#include "sim/predict/auto_split.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "sim/predict/predict.hpp"
#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

using Numbers = std::vector<std::int64_t>;

std::int64_t largest_stage(const Numbers& costs, const Numbers& split) {
  std::int64_t largest = 0;
  auto from = costs.begin();
  for (const std::int64_t count : split) {
    largest = std::max(largest, std::accumulate(from, from + count, std::int64_t{0}));
    from += count;
  }
  return largest;
}

/// The least that any split has.
std::int64_t least_of_all(const Numbers& costs, std::size_t first, std::int64_t parts) {
  if (parts == 1)
    return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(first), costs.end(), std::int64_t{0});
  std::int64_t least = INT64_MAX, sum = 0;
  for (std::size_t end = first + 1; end + static_cast<std::size_t>(parts) - 1 <= costs.size(); ++end) {
    sum += costs[end - 1];
    least = std::min(least, std::max(sum, least_of_all(costs, end, parts - 1)));
  }
  return least;
}

}  // namespace

TEST_CASE("the largest stage is as small as in the best of all splits", "[split]") {
  std::mt19937_64 random(5);
  for (int times = 0; times < 3000; ++times) {
    Numbers costs(1 + random() % 9);
    const std::uint64_t largest = times % 3 == 0 ? 2 : 20;
    for (std::int64_t& cost : costs) cost = static_cast<std::int64_t>(random() % largest);
    const auto parts = static_cast<std::int64_t>(1 + random() % costs.size());
    const Numbers split = smallest_largest_stage(costs, parts);
    REQUIRE(std::ssize(split) == parts);
    REQUIRE(std::accumulate(split.begin(), split.end(), std::int64_t{0}) == std::ssize(costs));
    REQUIRE(*std::min_element(split.begin(), split.end()) >= 1);
    REQUIRE(largest_stage(costs, split) == least_of_all(costs, 0, parts));
  }
}

TEST_CASE("splits of a few layers", "[split]") {
  const auto split = [](const Numbers& costs, std::int64_t parts) { return smallest_largest_stage(costs, parts); };
  CHECK(split({2, 2, 2, 9}, 2) == Numbers{3, 1});
  CHECK(split({9, 2, 2, 2}, 2) == Numbers{1, 3});
  CHECK(split({5}, 1) == Numbers{1});
  CHECK(split({0, 0, 0}, 3) == Numbers{1, 1, 1});
  CHECK(split(Numbers(14, 7), 4) == Numbers{4, 4, 3, 3});  // as even as can be
  CHECK(split({1, 4, 4, 4, 4, 8}, 3) == Numbers{3, 2, 1});
}

TEST_CASE("auto with synthetic costs is as even as can be, and the result says so", "[split]") {
  const RunResult run = predict(spec("--depth 6 --gpus 4 --split auto --tf 1 --tb 2"), nullptr);
  CHECK(run.spec.split == Split{{2, 2, 1, 1}, true});
  CHECK_THAT(describe(run.spec), ContainsSubstring("split 2,2,1,1, on 4 GPUs"));
  const nlohmann::json json = to_json(run);
  CHECK(json["config"]["split"] == "auto");
  CHECK(json["model"]["split"] == Numbers{2, 2, 1, 1});
  CHECK(run_from_json(json, "a.json").spec.split == run.spec.split);
}

TEST_CASE("auto by the costs of a profile: the first layer has no input gradient", "[split]") {
  // Of 32 rows: 64 us each, the first one's backward 32 us; forward 32 us.
  const CostProfile profile = tiny_profile();
  LayerFamilies families(profile);
  const RunSpec asked = spec("--depth 7 --dim 64 --batch 128 --microbatches 4 --gpus 3 --split auto");
  CHECK(layer_costs_ns(asked, families) == Numbers{64'000, 96'000, 96'000, 96'000, 96'000, 96'000, 106'000});
  CHECK(predict(asked, &profile).spec.split.layers == Numbers{3, 2, 2});
  CHECK_FALSE(needs_split(predict(asked, &profile).spec));
  for (const char* program : {" --workers one", " --program pytorch"}) {
    const RunSpec other =
        spec("--depth 7 --dim 64 --batch 128 --microbatches 4 --gpus 3 --split auto" + std::string(program));
    CHECK(layer_costs_ns(other, families).size() == 7);
  }
}
