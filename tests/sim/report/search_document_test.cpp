#include "sim/report/search_document.hpp"

#include <sstream>

#include "tests/support/catch.hpp"
#include "tests/support/setting_pairs.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

ConfigurationSearch search(const std::string& text, const CostProfile* profile, const SearchOptions& options = {}) {
  return search_configurations(configuration_space(words(text)), profile, options);
}

std::string shown(const ConfigurationSearch& found, const std::string& flags = "") {
  return to_terminal(search_document(found, flags), {.width = 100, .all_warnings = true});
}

const nlohmann::ordered_json* table(const nlohmann::ordered_json& document, const std::string& name) {
  for (const auto& one : document["tables"]) {
    if (one["name"] == name) return &one;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a search of textbook schedules: the winner, the commands, what the others lost by") {
  const ConfigurationSearch found = search("gpus 2 microbatches 4 tf 1 tb 1 tw 1 recompute 0", nullptr);
  const std::string text = shown(found);
  CHECK_THAT(text, ContainsSubstring("6 configurations: 6 predicted"));
  CHECK_THAT(text, ContainsSubstring("Fastest: schedule zb-h2, 12.000 ms a step"));
  CHECK_THAT(text, ContainsSubstring("pdl-sim --microbatches 4 --gpus 2 --schedule zb-h2"));
  CHECK_THAT(text, !ContainsSubstring("pdl-run"));  // nobody can run textbook costs
  CHECK_THAT(text, ContainsSubstring("What would have to change"));
  CHECK_THAT(text, ContainsSubstring("No limit of memory."));
}

TEST_CASE("the tables of a plan, as data") {
  const CostProfile profile = tiny_profile();
  const ConfigurationSearch found = search("gpus 2 depth 4 dim 64 batch 64", &profile);
  const nlohmann::ordered_json document = to_json(search_document(found));
  for (const char* name : {"searched", "plan", "lost", "parts", "changes"}) CHECK(table(document, name));
  const nlohmann::ordered_json& plan = (*table(document, "plan"))["rows"];
  REQUIRE(plan.size() == 10);
  CHECK(plan[0]["rank"] == 1);
  CHECK(plan[0]["behind_by"].is_null());
  CHECK(plan[0]["step_time_ms"] <= plan[1]["step_time_ms"]);
  const nlohmann::ordered_json& lost = (*table(document, "lost"))["rows"];
  CHECK(lost[0]["dimension"] == "all");
  CHECK(lost[0]["configurations"] == found.rows.size());
  CHECK(lost[0]["among_best"] == 10);
}

TEST_CASE("the command lines of the best have the flags of the search") {
  const CostProfile profile = tiny_profile();
  const std::string text = shown(search("gpus 2 depth 4 dim 64 batch 64", &profile), " --profile tiny.json");
  CHECK_THAT(text, ContainsSubstring(" --profile tiny.json"));
  CHECK_THAT(text, ContainsSubstring("pdl-run --depth 4"));
}

TEST_CASE("pdl-run is given the layers of stages that were found, as it finds none itself") {
  const CostProfile profile = tiny_profile();
  const std::string text =
      shown(search("gpus 2 strategy pp schedule gpipe depth 5 dim 64 batch 64 split auto", &profile));
  CHECK_THAT(text, ContainsSubstring("pdl-sim --depth 5"));
  CHECK_THAT(text, ContainsSubstring("--split 3,2"));
}

TEST_CASE("nothing fits: no best table, and an error message with the least memory") {
  const CostProfile profile = tiny_profile();
  SearchOptions options;
  options.memory_limit_bytes = 10;
  const ConfigurationSearch found = search("gpus 2 depth 4 dim 64 batch 64", &profile, options);
  const std::string text = shown(found);
  CHECK_THAT(text, !ContainsSubstring("The best\n"));
  CHECK_THAT(text, ContainsSubstring("Why the others lost"));
  CHECK_THAT(found.nothing_fits(), ContainsSubstring("out of memory: none of the "));
  CHECK(search("gpus 2 microbatches 4 tf 1 tb 1", nullptr).nothing_fits().empty());
}
