// Predictions of small plans: every byte string is a command line whose words have a meaning more often than not, with
// textbook costs or a tiny profile. A prediction holds what prediction_invariants.hpp says, or is refused.
#include <fuzzer/FuzzedDataProvider.h>

#include "sim/io/words.hpp"
#include "sim/spec/schedule.hpp"
#include "sim/spec/settings.hpp"
#include "tests/fuzz/prediction_invariants.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

std::string word_from(FuzzedDataProvider& bytes, const std::string& one_of) {  // "sgd|adam"
  const std::vector<std::string> words = split_at(one_of, '|');
  return words[bytes.ConsumeIntegralInRange<std::size_t>(0, words.size() - 1)];
}

std::string schedule_from(FuzzedDataProvider& bytes) {
  const auto known = schedules();
  const std::size_t index = bytes.ConsumeIntegralInRange<std::size_t>(0, known.size());
  return index == known.size() ? std::string(kAutoSchedule) : std::string(known[index].name);
}

/// Mostly small, now and then of a size that only a check keeps from being planned.
std::string whole_from(FuzzedDataProvider& bytes) {
  if (bytes.ConsumeIntegralInRange(0, 31) == 0) return std::to_string(bytes.ConsumeIntegral<std::int64_t>());
  return std::to_string(bytes.ConsumeIntegralInRange(0, 16));
}

std::string cost_from(FuzzedDataProvider& bytes) {
  constexpr const char* kCosts = "0|1|2|0.5|0.000001|0.333333|17|1000000000|3.25|0.1";
  std::string text = word_from(bytes, kCosts);
  for (int more = bytes.ConsumeIntegralInRange(0, 7); more > 4; --more) text += "," + word_from(bytes, kCosts);
  return text;
}

std::string value_from(FuzzedDataProvider& bytes, const SettingRow& row) {
  if (row.name == "model") return "mlp";
  if (row.name == "schedule") return schedule_from(bytes);
  if (row.name == "split") return word_from(bytes, "auto|1,1|2,1|1,2,3|4,4");
  if (row.name == "straggler") return word_from(bytes, "0:1|1:0|1:20|7:3");
  if (row.name == "dim" || row.name == "batch") return word_from(bytes, "64|1|2|63|100|128|1000|4096|1000000");
  switch (row.values) {
    case Values::text: return word_from(bytes, "0|1|x");
    case Values::word: return word_from(bytes, row.value_name);
    case Values::on_off: return word_from(bytes, "0|1");
    case Values::whole: return whole_from(bytes);
    case Values::whole_by_stage: return word_from(bytes, "auto|1|4,4|3,5|2,2,2,2");
    case Values::number: return word_from(bytes, "0|1|0.001|25|400|1000000");
    case Values::cost:
    case Values::cost_by_stage: return cost_from(bytes);
  }
  return "";
}

std::vector<SettingValue> words_from(FuzzedDataProvider& bytes) {
  std::vector<SettingValue> words;
  const bool textbook = bytes.ConsumeBool();
  for (const SettingRow& row : all_settings()) {
    const bool needed = textbook ? row.name == "tf" || row.name == "tb" : row.name == "dim";
    if (!textbook && is_synthetic_cost(row)) continue;
    if (needed || bytes.ConsumeIntegralInRange(0, 3) == 0)
      words.push_back({row.name, value_from(bytes, row), "--" + row.name});
  }
  return words;
}

/// A plan of some hundred tasks.
bool is_small(const RunSpec& spec) {
  constexpr double kMostCells = 1500;
  return static_cast<double>(spec.depth) * static_cast<double>(spec.gpus) * static_cast<double>(spec.accum) <
             kMostCells &&
         static_cast<double>(spec.gpus) * static_cast<double>(spec.chunks) * static_cast<double>(spec.microbatches) *
                 static_cast<double>(spec.accum) <
             kMostCells;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const CostProfile profile = tiny_profile();
  FuzzedDataProvider bytes(data, size);
  const std::vector<SettingValue> words = words_from(bytes);
  const auto spec = unless_refused([&] { return parse_run_spec(words); });
  if (!spec || !is_small(*spec)) return 0;
  const auto run = unless_refused([&] { return predict(*spec, &profile); });
  if (run) check_prediction(*run);
  return 0;
}
