// What tells measured runs of the same work apart.
#include "sim/io/words.hpp"
#include "sim/spec/settings/rows.hpp"

namespace pdl::setting_rows {

std::vector<SettingRow> measurement() {
  return {
      {.name = "seed",
       .value_name = "N",
       .help =
           "fixes the parameters and the data of a measured run, and what --noise draws; nothing else of a prediction",
       .usual = "0",
       .values = Values::number,
       .turn = Turn::measurement,
       .read = [](const SettingValue& value, const Range& range, RunSpec& spec) { spec.seed = whole_of(value, range); },
       .write = [](const RunSpec& spec) { return std::optional(std::to_string(spec.seed)); },
       .written_if_usual = false,
       .in_run_name = [](const RunSpec& spec) { return spec.seed == 0 ? "" : "_seed" + std::to_string(spec.seed); }},
      {.name = "learning-rate",
       .value_name = "X",
       .help = "of the optimizer of a measured run; predictions do not depend on it",
       .usual = "0.01",
       .values = Values::number,
       .range = {0, kMillion},
       .turn = Turn::measurement,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.learning_rate = number_of(value, range); },
       .write = [](const RunSpec& spec) { return std::optional(to_text(spec.learning_rate)); },
       .written_if_usual = false,
       .in_run_name =
           [](const RunSpec& spec) {
             return spec.learning_rate == RunSpec().learning_rate ? "" : "_lr" + name_text(spec.learning_rate);
           }},
      {.name = "repeat",
       .value_name = "N",
       .help = "which of several measured runs with equal settings this is; predictions do not depend on it",
       .usual = "1",
       .values = Values::number,
       .range = {1, kMillion},
       .turn = Turn::measurement,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.repeat = whole_of(value, range); },
       .write = [](const RunSpec& spec) { return std::optional(std::to_string(spec.repeat)); },
       .written_if_usual = false,
       .in_run_name =
           [](const RunSpec& spec) { return spec.repeat == 1 ? "" : "_repeat" + std::to_string(spec.repeat); }},
  };
}

}  // namespace pdl::setting_rows
