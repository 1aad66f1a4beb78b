// Command lines: a line of the input is a word. What is taken becomes a spec, whose own words are the same spec; the
// ranges of a sweep are taken of the same words.
#include <CLI/CLI.hpp>

#include "sim/io/words.hpp"
#include "sim/run/run_name.hpp"
#include "sim/study/sweep_values.hpp"
#include "sim/tool/flags.hpp"
#include "tests/fuzz/fuzzing.hpp"

using namespace pdl;

namespace {

/// The settings of a command line, as pdl-sim reads them. Throws InputError.
std::vector<SettingValue> settings_of(const std::string& text) {
  CLI::App app("words", "pdl-sim");
  const SettingFlags flags(app);
  std::vector<std::string> words = split_at(text, '\n');
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    if (dynamic_cast<const CLI::Success*>(&error)) return {};
    refuse_command_line(app, error);
  }
  return flags.given();
}

std::string text_of_settings(const RunSpec& spec) {
  std::string text;
  for (const SettingValue& setting : to_settings(spec)) text += setting.name + "=" + setting.value + "\n";
  return text;
}

/// Most of the time of a spec is its layers: of a few of these a second nothing is learnt.
bool has_many_layers(const std::vector<SettingValue>& words) {
  const SettingValue* depth = find_setting(words, "depth");
  return depth && depth->value.size() > 4;
}

void check_spec(const std::vector<SettingValue>& words) {
  const auto spec = unless_refused([&] { return parse_run_spec(words); });
  if (!spec) return;
  require(!describe(*spec).empty() && !run_name(*spec).empty(), "a spec has a description and a name");
  require(parameters(spec->model) > 0, "a model has parameters");
  const std::string own_words = text_of_settings(*spec);
  require_equal(own_words, text_of_settings(parse_run_spec(to_settings(*spec))),
                "the words of a spec and of its words");
}

void check_sweep(const std::vector<SettingValue>& words) {
  constexpr std::size_t kFew = 32;
  std::size_t rows = 1;
  for (const SettingValue& word : words) {
    const auto values = unless_refused([&] { return expand_setting(word); });
    if (!values) return;
    require(!values->empty(), "a setting has a value");
    rows *= values->size();
    if (rows > kFew) return;
  }
  const auto combined = unless_refused([&] { return combine_settings(words); });
  if (combined) require(!combined->rows.empty() && combined->rows.size() <= rows, "as many rows as combinations");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto words = unless_refused([&] { return settings_of(text_of(data, size)); });
  if (!words || has_many_layers(*words)) return 0;
  check_spec(*words);
  check_sweep(*words);
  for (const SettingValue& word : *words) {
    const auto bytes = unless_refused([&] { return parse_bytes("--memory", word.value); });
    if (bytes) require(*bytes > 0, "an amount of memory is positive");
  }
  return 0;
}
