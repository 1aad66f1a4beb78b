#include "sim/study/sweep_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/spec/given_words.hpp"
#include "sim/spec/settings.hpp"

namespace pdl {
namespace {

constexpr std::size_t kMostConfigurations = 1'000'000;
constexpr std::int64_t kLargestWhole = 1'000'000'000;
constexpr const char* kRangeForms = "FROM:TO, FROM:TO:STEP or FROM:TO:xFACTOR";
/// Values of a range of numbers. `whole`: none of them has a fraction.
std::vector<std::string> range_values(const SettingValue& given, const std::string& range, bool whole) {
  const std::vector<std::string> parts = split_at(range, ':');
  if (parts.size() > 3) throw InputError(given.place, range, kRangeForms);
  const auto number = [&](const std::string& text, std::int64_t least) {
    if (whole) return static_cast<double>(parse_whole(given.place, text, least, kLargestWhole));
    return parse_number(given.place, text, 0, kLargestSyntheticCostMs);
  };
  const double from = number(parts[0], 1), to = number(parts[1], 1);
  if (from > to) throw InputError(given.place, range, "a range from less to more");
  const bool factor = parts.size() == 3 && parts[2].starts_with('x');
  const double step = parts.size() < 3 ? 1 : factor ? number(parts[2].substr(1), 2) : number(parts[2], 1);
  if (factor ? step <= 1 || from <= 0 : step <= 0) {
    throw InputError(given.place, range, factor ? "a factor above 1, and a start above 0" : "a step above 0");
  }
  std::vector<std::string> values;
  // Costs are whole picoseconds here, so that steps of 0.1 end where they should.
  const auto rounded = [](double value) { return std::round(value * 1e9) / 1e9; };
  for (double value = from; value <= to;
       value = factor ? value * step : from + static_cast<double>(values.size()) * step) {
    values.push_back(whole ? std::to_string(static_cast<std::int64_t>(value)) : to_text(rounded(value)));
    if (values.size() > kMostConfigurations)
      throw InputError(given.place, range, "at most " + std::to_string(kMostConfigurations) + " values");
  }
  return values;
}

/// A number as it is shortest, so that "25" and "25.0" are one value; a straggler's both, those of all stages; other
/// text as it is.
std::string same_value(const std::string& text) {
  for (const char separator : {':', '/'}) {
    const std::size_t at = text.find(separator);
    if (at != std::string::npos) return same_value(text.substr(0, at)) + separator + same_value(text.substr(at + 1));
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? to_text(number) : text;
}

/// Refuses a value that is wrong whatever is given beside it: it is tried with all else as simple as can be.
void check_alone(const SettingRow& setting, const SettingValue& value) {
  std::vector<SettingValue> values = {value};
  for (const char* name : {"tf", "tb"}) {
    if (value.name != name && setting.beside_synthetic_costs) values.push_back({name, "1", name});
  }
  for (const auto& [name, beside] : setting.needs ? setting.needs(value) : Needs())
    values.push_back({name, beside, value.place});
  parse_run_spec(values);
}

/// What of a row has no meaning.
struct Meaning {
  std::optional<WithoutMeaning> refusal;  // of a word without which the row may stand
  bool schedule_says_nothing = false;     // beside a strategy without schedules "naive" may be said
};

Meaning meaning_of(const std::vector<SettingValue>& row) {
  try {
    const RunSpec spec = parse_run_spec(row);
    return {std::nullopt, spec.strategy != Strategy::pp && find_setting(row, "schedule")};
  } catch (const WithoutMeaning& refusal) {
    return {refusal, false};
  } catch (const InputError&) {  // a refusal of the row, told when it is predicted
  } catch (const CannotRun&) {
  }
  return {};
}

/// A word that means nothing in some rows (a network where there is one host) is left out of them; rows that are then
/// the same are one. Refuses a word that no row has a use for.
void leave_out_words_without_meaning(std::vector<RowSettings>& rows) {
  std::map<std::string, std::string> refusals;  // word -> message
  std::set<std::string> kept;
  bool left_out = false;
  for (RowSettings& of_row : rows) {
    std::vector<SettingValue> row = of_row.list();
    const std::size_t words = row.size();
    Meaning meaning = meaning_of(row);
    for (; meaning.refusal; meaning = meaning_of(row)) {
      const WithoutMeaning& refusal = *meaning.refusal;
      refusals.try_emplace(refusal.name, refusal.what());
      std::erase_if(row, [&](const SettingValue& s) { return s.name == refusal.name; });
    }
    for (const SettingValue& setting : row) kept.insert(setting.name);
    if (meaning.schedule_says_nothing) {
      left_out = true;
      std::erase_if(row, [](const SettingValue& s) { return s.name == "schedule"; });
    }
    if (row.size() < words) of_row = RowSettings(row);
  }
  for (const auto& [name, message] : refusals) {
    if (!kept.contains(name)) throw InputError(message);
  }
  if (refusals.empty() && !left_out) return;
  std::set<std::string> known;
  std::erase_if(rows, [&](const RowSettings& row) {
    std::string words;
    for (const SettingValue& setting : row) words += setting.name + "=" + setting.value + "\n";
    return !known.insert(words).second;
  });
}

}  // namespace

void check_alone(const SettingValue& value) {
  check_alone(*find_row(value.name), value);
}

std::vector<SettingValue> expand_setting(const SettingValue& given) {
  const SettingRow* row = find_row(given.name);
  const bool whole = row && row->values == Values::whole, cost = row && is_synthetic_cost(*row);
  std::vector<SettingValue> values;
  for (const std::string& item : split_at(given.value, ',')) {
    if (item.empty())
      throw InputError(given.place, given.value.empty() ? "nothing" : given.value, "values between the commas");
    const bool range = (whole || cost) && item.find(':') != std::string::npos;
    for (const std::string& value : range ? range_values(given, item, whole) : std::vector<std::string>{item}) {
      values.push_back({given.name, value, given.place});
    }
  }
  std::map<std::string, std::string> known;
  for (const SettingValue& value : values) {
    const auto [first, added] = known.try_emplace(same_value(value.value), value.value);
    if (added) continue;
    const char* stages =
        cost ? " (commas are between values of a sweep; the times of the stages of one value have slashes: 1/1/2/1)"
             : "";
    throw InputError(
        given.place,
        value.value + (value.value == first->second ? " twice" : " beside " + first->second + ", the same"),
        std::string("each value once") + stages);
  }
  return values;
}

Combinations combine_settings(std::span<const SettingValue> given) {
  for (const SettingValue& setting : given) setting_words::check_known(setting);
  Combinations result;
  std::vector<RowSettings>& all = result.rows;
  all.resize(1);
  for (const SettingRow& row : all_settings()) {
    for (const SettingValue& setting : given) {
      if (setting.name != row.name) continue;
      const std::vector<SettingValue> values = expand_setting(setting);
      for (const SettingValue& value : values) check_alone(row, value);
      if (values.size() > 1) result.varying.push_back(row.name);
      if (all.size() * values.size() > kMostConfigurations) {
        throw InputError(setting.place, std::to_string(all.size() * values.size()) + " configurations",
                         "at most " + std::to_string(kMostConfigurations));
      }
      const RowSettings stored(values);
      std::vector<RowSettings> longer;
      longer.reserve(all.size() * values.size());
      for (const RowSettings& before : all) {
        for (std::size_t v = 0; v < values.size(); ++v) {
          longer.push_back(before);
          longer.back().add(stored, v);
        }
      }
      all = std::move(longer);
    }
  }
  leave_out_words_without_meaning(all);
  return result;
}

}  // namespace pdl
