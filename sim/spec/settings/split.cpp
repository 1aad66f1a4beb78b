// Which layers each stage has.
#include <algorithm>
#include <charconv>

#include "sim/io/words.hpp"
#include "sim/spec/settings/rows.hpp"

namespace pdl::setting_rows {
namespace {

void read_split(const SettingValue& value, const Range& range, RunSpec& spec) {
  spec.split = {{}, value.value == kAutoSplit};
  if (spec.split.is_auto) return;
  const bool slashes = value.value.find('/') != std::string::npos;  // in a list of a sweep commas are between values
  for (const std::string& number : split_at(value.value, slashes ? '/' : ','))
    spec.split.layers.push_back(whole_of({value.name, number, value.place}, range));
}

std::optional<std::string> write_split(const RunSpec& spec) {
  if (spec.split.is_auto) return kAutoSplit;
  return spec.split.layers.empty() ? std::nullopt : std::optional(to_string(spec.split));
}

/// As many GPUs and layers as it has.
Needs needs_of_split(const SettingValue& value) {
  const std::vector<std::string> numbers =
      split_at(value.value, value.value.find('/') == std::string::npos ? ',' : '/');
  std::int64_t sum = 0;
  for (const std::string& number : numbers) {
    std::int64_t layers = 0;
    const bool is_number = std::from_chars(number.data(), number.data() + number.size(), layers).ec == std::errc();
    sum += is_number ? std::clamp<std::int64_t>(layers, 1, static_cast<std::int64_t>(kMillion)) : 1;
  }
  return {{"strategy", "pp"}, {"gpus", std::to_string(numbers.size())}, {"depth", std::to_string(sum)}};
}

/// "_split4-4-3-3"
std::string split_in_name(const RunSpec& spec) {
  std::string text = write_split(spec).value_or("");
  for (char& c : text) c = c == ',' ? '-' : c;
  return text.empty() ? "" : "_split" + text;
}

}  // namespace

std::vector<SettingRow> split() {
  return {
      {.name = "split",
       .value_name = "L,L...|auto",
       .help = "layers of each stage of a replica, of all layers or of a transformer's blocks (8,8,7,7 or 8/8/7/7), or "
               "auto: by what they cost, which pdl-sim finds",
       .usual_words = "default: as even as can be",
       .values = Values::whole_by_stage,
       .range = {1, kMillion},
       .turn = Turn::layers,
       .read = read_split,
       .write = write_split,
       .meaningful = "strategy mp, pp",
       .no_meaning = [](const SettingValue& value, const RunSpec& spec) -> std::optional<NoMeaning> {
         const bool has_stages = spec.strategy == Strategy::mp || spec.strategy == Strategy::pp;
         return has_stages ? std::nullopt : std::optional(no_meaning_with(value, strategy_of(spec)));
       },
       .asked = Turn::stages,
       .in_run_name = split_in_name,
       .needs = needs_of_split},
  };
}

}  // namespace pdl::setting_rows
