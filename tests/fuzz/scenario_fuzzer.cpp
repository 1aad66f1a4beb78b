// Scenarios. They may name files of models and schedules, relative to where the fuzzer runs.
#include "sim/report/scenario_columns.hpp"
#include "sim/study/scenario.hpp"
#include "tests/fuzz/fuzzing.hpp"

using namespace pdl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScenarioNames known = scenario_names();
  const std::string path = as_file("scenario.json", text_of(data, size));
  const auto scenario = unless_refused([&] { return load_scenario(path, known); });
  if (!scenario) return 0;
  require(!scenario->configurations.empty(), "a scenario has a configuration");
  require(!scenario->columns.empty(), "a scenario has a column");
  return 0;
}
