// The document of the formats names every key, column and answer that there is.
#include <filesystem>

#include "sim/course/questions.hpp"
#include "sim/report/scenario_columns.hpp"
#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"
#include "tests/support/golden.hpp"

using namespace pdl;

namespace {

std::string document() {
  const std::string own = PDL_SOURCE_DIR "/docs/formats-run.md", whole = PDL_SOURCE_DIR "/docs/formats.md";
  return read_text(std::filesystem::exists(own) ? own : whole);
}

}  // namespace

TEST_CASE("the document of the formats is complete") {
  const std::string text = document();
  const nlohmann::ordered_json run = to_json(drawn_run(1, {{0, "aA"}}));
  for (const auto& [key, value] : run.items()) CHECK_THAT(text, ContainsSubstring(key));
  for (const ScenarioColumn& column : scenario_columns()) CHECK_THAT(text, ContainsSubstring("`" + column.name + "`"));
  for (const std::string& exercise : exercises()) CHECK_THAT(text, ContainsSubstring("`" + exercise + "`"));
}
