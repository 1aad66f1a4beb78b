#include "sim/report/sweep.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <new>
#include <thread>

#include "sim/report/common_settings.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/number_text.hpp"
#include "sim/report/predict.hpp"
#include "sim/report/run_json.hpp"
#include "sim/report/terminal.hpp"
#include "sim/report/text_table.hpp"
#include "sim/report/warnings.hpp"
#include "sim/spec/error.hpp"
#include "sim/spec/words.hpp"

namespace pdl {
namespace {

constexpr std::size_t kMostConfigurations = 100'000;
constexpr std::int64_t kLargestWhole = 1'000'000'000;
constexpr double kLargestCost = 1e9;
constexpr const char* kRangeForms = "FROM:TO, FROM:TO:STEP or FROM:TO:xFACTOR";
constexpr std::array kWholeSettings = {"depth", "dim", "batch", "microbatches", "gpus", "chunks"};
constexpr std::array kCostSettings = {"tf", "tb", "tw", "tcomm"};

template <std::size_t N>
bool is_one_of(const std::array<const char*, N>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts = {""};
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

/// Values of a range of numbers. `whole`: none of them has a fraction.
std::vector<std::string> range_values(const SettingValue& given, const std::string& range, bool whole) {
  const std::vector<std::string> parts = split(range, ':');
  if (parts.size() > 3) throw InputError(given.place, range, kRangeForms);
  const auto number = [&](const std::string& text, std::int64_t least) {
    if (whole) return static_cast<double>(parse_whole(given.place, text, least, kLargestWhole));
    return parse_number(given.place, text, 0, kLargestCost);
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
  for (double value = from; value <= to; value = factor ? value * step : from + static_cast<double>(values.size()) * step) {
    values.push_back(whole ? std::to_string(static_cast<std::int64_t>(value)) : to_text(rounded(value)));
    if (values.size() > kMostConfigurations) throw InputError(given.place, range, "at most " + std::to_string(kMostConfigurations) + " values");
  }
  return values;
}

/// Refuses a value that is wrong whatever is given beside it: it is tried with all else as simple as can be.
void check_alone(const SettingValue& value) {
  std::vector<SettingValue> values = {value};
  for (const char* name : {"tf", "tb"}) {
    if (value.name != name) values.push_back({name, "1", name});
  }
  if (value.name == "chunks") values.push_back({"schedule", "interleaved", "schedule"});
  parse_run_spec(values);
}

using Settings = std::vector<SettingValue>;

std::vector<Settings> combinations(std::span<const SettingValue> given, std::vector<std::string>& varying) {
  std::vector<Settings> all = {{}};
  for (const SettingInfo& info : setting_infos()) {
    for (const SettingValue& setting : given) {
      if (setting.name != info.name) continue;
      const Settings values = expand_setting(setting);
      for (const SettingValue& value : values) check_alone(value);
      if (values.size() > 1) varying.push_back(info.name);
      if (all.size() * values.size() > kMostConfigurations) {
        throw InputError(setting.place, std::to_string(all.size() * values.size()) + " configurations", "at most " + std::to_string(kMostConfigurations));
      }
      std::vector<Settings> longer;
      for (const Settings& before : all) {
        for (const SettingValue& value : values) {
          longer.push_back(before);
          longer.back().push_back(value);
        }
      }
      all = std::move(longer);
    }
  }
  return all;
}

SweepResult result_of(const RunResult& run) {
  SweepResult result;
  result.step_time_ms = run.step_time.median_ms;
  result.bubble_fraction = compute_metrics(run).bubble_fraction;
  result.bound_ms = run.bound_ms;
  result.peak_memory_bytes = *std::max_element(run.peak_memory_bytes.begin(), run.peak_memory_bytes.end());
  for (const LiveActivations& live : run.live) {
    result.live_activations = std::max(result.live_activations, live.count);
    result.live_activation_bytes = std::max(result.live_activation_bytes, live.bytes);
  }
  result.steps_overlap = steps_overlap(run.spec);
  result.warnings = run.warnings;
  return result;
}

/// Fills in the row; `source` too, where it can run.
void evaluate(const CostProfile* profile, const std::optional<std::int64_t>& memory_limit_bytes, SweepRow& row,
              std::string& source) {
  try {
    const RunSpec spec = parse_run_spec(row.given);
    row.settings = to_settings(spec);
    // Named schedules above the limit are shown; the search for one is told of it.
    const bool searched = spec.schedule == kAutoSchedule;
    const RunResult run = predict(spec, profile, searched ? memory_limit_bytes : std::nullopt);
    row.result = result_of(run);
    source = describe_source(run);
  } catch (const InputError& error) {
    row.refusal = error.what();
    row.exit_code = kExitInput;
  } catch (const CannotRun& error) {
    row.refusal = error.what();
    row.exit_code = kExitCannotRun;
  } catch (const std::bad_alloc&) {
    row.refusal = "not enough memory on this machine for a plan of this size";
    row.exit_code = kExitCannotRun;
  }
}

std::optional<std::size_t> least(const Sweep& sweep, double (*value)(const SweepResult&)) {
  std::optional<std::size_t> best;
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    if (!sweep.can_win(sweep.rows[r])) continue;
    if (!best || value(*sweep.rows[r].result) < value(*sweep.rows[*best].result)) best = r;
  }
  return best;
}

const std::string& value_of(const SweepRow& row, const std::string& name) {
  const auto found = std::find_if(row.given.begin(), row.given.end(), [&](const auto& s) { return s.name == name; });
  return found->value;
}

/// "schedule zb-v, microbatches 8": what tells the row from the others.
std::string label(const Sweep& sweep, const SweepRow& row) {
  std::string text;
  for (const std::string& name : sweep.varying) {
    text += (text.empty() ? "" : ", ") + name + " " + value_of(row, name);
  }
  return text.empty() ? "the only configuration" : text;
}

std::string mark_of(const Sweep& sweep, std::size_t r) {
  const SweepRow& row = sweep.rows[r];
  if (!row.result) return row.exit_code == kExitInput ? "refused" : "cannot run";
  if (!sweep.can_win(row)) return "above " + binary_bytes(*sweep.memory_limit_bytes);
  if (r == sweep.fastest()) return r == sweep.least_memory() ? "fastest, least memory" : "fastest";
  return r == sweep.least_memory() ? "least memory" : "";
}

/// Small models are shown in MiB.
bool memory_in_mib(const Sweep& sweep) {
  return std::all_of(sweep.rows.begin(), sweep.rows.end(),
                     [](const SweepRow& row) { return !row.result || row.result->peak_memory_bytes < 1 << 30; });
}

std::string table_text(const Sweep& sweep) {
  const bool small = memory_in_mib(sweep);
  const std::string unit = small ? "MiB" : "GiB";
  const auto memory = [&](std::int64_t bytes) { return small ? mib(bytes) : gib(bytes); };
  TextTable table{{{"row", ""}}, {}};
  for (const std::string& name : sweep.varying) {
    const bool number = is_one_of(kWholeSettings, name) || is_one_of(kCostSettings, name);
    table.columns.push_back({name, is_one_of(kCostSettings, name) ? "ms" : "", number ? Align::right : Align::left});
  }
  for (const TextColumn& column : {TextColumn{"step time", "ms"}, TextColumn{"bound", "ms"}, TextColumn{"bubble", "%"},
                                   TextColumn{"peak memory", unit},
                                   TextColumn{"live", "activations"}, TextColumn{"their size", unit},
                                   TextColumn{"", "", Align::left}}) {
    table.columns.push_back(column);
  }
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    const SweepRow& row = sweep.rows[r];
    std::vector<std::string> cells = {std::to_string(r + 1)};
    for (const std::string& name : sweep.varying) cells.push_back(value_of(row, name));
    if (row.result) {
      const SweepResult& result = *row.result;
      cells.insert(cells.end(), {fixed(result.step_time_ms, 3), result.bound_ms ? fixed(*result.bound_ms, 3) : "-",
                                 fixed(100 * result.bubble_fraction, 1),
                                 memory(result.peak_memory_bytes), std::to_string(result.live_activations),
                                 memory(result.live_activation_bytes)});
    } else {
      cells.insert(cells.end(), {"-", "-", "-", "-", "-", "-"});
    }
    cells.push_back(mark_of(sweep, r));
    table.rows.push_back(std::move(cells));
  }
  return to_text(table);
}

/// Each note once, with the rows that have it: "row 3, 5: ...".
class NotesOfRows {
 public:
  void add(std::size_t r, const std::string& note) {
    const std::string row = std::to_string(r + 1);
    const auto found = std::find_if(notes_.begin(), notes_.end(), [&](const auto& n) { return n.first == note; });
    if (found == notes_.end()) {
      notes_.push_back({note, "row " + row});
    } else {
      found->second += ", " + row;
    }
  }
  std::string text(std::size_t width) const {
    std::string text;
    for (const auto& [note, rows] : notes_) text += wrap(rows + ": " + note, width, 2);
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> notes_;  // note, rows
};

std::string notes_text(const Sweep& sweep, std::size_t width) {
  NotesOfRows notes;
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    const SweepRow& row = sweep.rows[r];
    if (!row.result) notes.add(r, row.refusal);
    if (row.result && row.result->steps_overlap) {
      notes.add(r, "steps overlap, without a barrier at the optimizer: a step is the time of the GPU that is at it longest "
                   "(with the barrier: --overlap-steps 0)");
    }
  }
  return notes.text(width);
}

/// "3.1 % less than", "as much as".
std::string less_than(double value, double other) {
  const double less = 100 * (1 - value / other);
  return less < 0.05 ? "as much as" : fixed(less, 1) + " % less than";
}

std::string winners_text(const Sweep& sweep) {
  const auto fastest = sweep.fastest(), smallest = sweep.least_memory();
  if (!fastest) return "";
  const SweepRow& winner = sweep.rows[*fastest];
  std::optional<std::size_t> next;
  std::size_t slowest = *fastest;
  const auto time = [&](std::size_t r) { return sweep.rows[r].result->step_time_ms; };
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    if (r == *fastest || !sweep.can_win(sweep.rows[r])) continue;
    if (!next || time(r) < time(*next)) next = r;
    if (time(r) > time(slowest)) slowest = r;
  }
  std::string text = "Fastest: " + label(sweep, winner) + ", " + fixed(time(*fastest), 3) + " ms a step";
  if (next) {
    text += ", " + less_than(time(*fastest), time(*next)) + " the next (" + label(sweep, sweep.rows[*next]) + ", " +
            fixed(time(*next), 3) + " ms)";
  }
  if (next && slowest != *next && slowest != *fastest) {
    text += " and " + less_than(time(*fastest), time(slowest)) + " the slowest (" + label(sweep, sweep.rows[slowest]) + ")";
  }
  const std::int64_t of_fastest = winner.result->peak_memory_bytes, bytes = sweep.rows[*smallest].result->peak_memory_bytes;
  text += "; least memory: ";
  if (smallest == fastest) return text + "the same, " + binary_bytes(bytes) + " on its fullest GPU.";
  return text + label(sweep, sweep.rows[*smallest]) + ", " + binary_bytes(bytes) + " on its fullest GPU, " +
         less_than(static_cast<double>(bytes), static_cast<double>(of_fastest)) + " the fastest.";
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) line += (c == 0 ? "" : ",") + csv_cell(cells[c]);
  return line + "\n";
}

}  // namespace

bool Sweep::can_win(const SweepRow& row) const {
  return row.result && (!memory_limit_bytes || row.result->peak_memory_bytes <= *memory_limit_bytes);
}

std::optional<std::size_t> Sweep::fastest() const {
  return least(*this, [](const SweepResult& result) { return result.step_time_ms; });
}

std::optional<std::size_t> Sweep::least_memory() const {
  return least(*this, [](const SweepResult& result) { return static_cast<double>(result.peak_memory_bytes); });
}

std::vector<SettingValue> expand_setting(const SettingValue& given) {
  const bool whole = is_one_of(kWholeSettings, given.name), cost = is_one_of(kCostSettings, given.name);
  std::vector<SettingValue> values;
  for (const std::string& item : split(given.value, ',')) {
    if (item.empty()) throw InputError(given.place, given.value.empty() ? "nothing" : given.value, "values between the commas");
    const bool range = (whole || cost) && item.find(':') != std::string::npos;
    for (const std::string& value : range ? range_values(given, item, whole) : std::vector<std::string>{item}) {
      values.push_back({given.name, value, given.place});
    }
  }
  std::vector<std::string> sorted;
  for (const SettingValue& value : values) sorted.push_back(value.value);
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) throw InputError(given.place, *twice + " twice", "each value once");
  return values;
}

Sweep run_sweep(std::span<const SettingValue> given, const CostProfile* profile, const SweepOptions& options) {
  Sweep sweep;
  sweep.memory_limit_bytes = options.memory_limit_bytes;
  for (Settings& settings : combinations(given, sweep.varying)) {
    sweep.rows.emplace_back();
    sweep.rows.back().given = std::move(settings);
  }
  std::vector<std::string> sources(sweep.rows.size());
  std::vector<std::exception_ptr> bugs(sweep.rows.size());
  std::atomic<std::size_t> next = 0, done = 0;
  const auto work = [&](bool shows) {
    for (std::size_t r = next++; r < sweep.rows.size(); r = next++) {
      try {
        evaluate(profile, options.memory_limit_bytes, sweep.rows[r], sources[r]);
      } catch (...) {
        bugs[r] = std::current_exception();
      }
      ++done;
      if (shows && options.progress) options.progress(done, sweep.rows.size());
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto most = static_cast<std::int64_t>(sweep.rows.size());
    for (std::int64_t t = 1; t < std::min(options.threads, most); ++t) threads.emplace_back(work, false);
    work(true);
  }
  for (const std::exception_ptr& bug : bugs) {
    if (bug) std::rethrow_exception(bug);
  }
  const auto source = std::find_if(sources.begin(), sources.end(), [](const std::string& s) { return !s.empty(); });
  if (source != sources.end()) sweep.source = *source;
  return sweep;
}

std::string sweep_text(const Sweep& sweep, std::size_t width) {
  std::vector<Settings> settings;
  WarningList warnings;
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    const SweepRow& row = sweep.rows[r];
    if (!row.settings.empty()) settings.push_back(row.settings);
    if (row.result) warnings.add("row " + std::to_string(r + 1), row.result->warnings);
  }
  std::string out = sweep.source.empty() ? "" : wrap(sweep.source, width, 2);
  out += common_settings_text(settings, width) + "\n" + table_text(sweep) +
         wrap("bound: the order with its compute costs alone, no transfers, no host, no optimizer; peak memory, live activations: of the GPU that has most; live activations: pairs of a stage and a "
              "micro-batch that are kept for a backward",
              width) +
         notes_text(sweep, width) + warnings.text(width);
  const std::string winners = winners_text(sweep);
  return winners.empty() ? out : out + "\n" + wrap(winners, width);
}

nlohmann::ordered_json sweep_json(const Sweep& sweep) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const SweepRow& row : sweep.rows) {
    nlohmann::ordered_json config = nlohmann::ordered_json::object(), entry;
    for (const SettingValue& setting : row.settings.empty() ? row.given : row.settings) config[setting.name] = setting_to_json(setting.value);
    entry["config"] = config;
    if (row.result) {
      entry["step_time_ms"] = {{"median", row.result->step_time_ms}};
      if (row.result->bound_ms) entry["bound_ms"] = *row.result->bound_ms;
      entry["bubble_fraction"] = row.result->bubble_fraction;
      entry["peak_memory_bytes"] = row.result->peak_memory_bytes;
      entry["live_activations"] = row.result->live_activations;
      entry["live_activation_bytes"] = row.result->live_activation_bytes;
      entry["steps_overlap"] = row.result->steps_overlap;
      entry["within_memory_limit"] = sweep.can_win(row);
      entry["warnings"] = row.result->warnings;
    } else {
      entry["refused"] = {{"exit_code", row.exit_code}, {"reason", row.refusal}};
    }
    rows.push_back(entry);
  }
  const auto index = [](const std::optional<std::size_t>& row) {
    return row ? nlohmann::ordered_json(*row) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json limit;
  if (sweep.memory_limit_bytes) limit = *sweep.memory_limit_bytes;
  return {{"source", sweep.source},          {"varying", sweep.varying},
          {"memory_limit_bytes", limit},     {"rows", rows},
          {"fastest", index(sweep.fastest())}, {"least_memory", index(sweep.least_memory())}};
}

std::string sweep_csv(const Sweep& sweep) {
  std::vector<std::string> head;
  for (const SettingValue& setting : sweep.rows.front().given) head.push_back(setting.name);
  head.insert(head.end(), {"step_time_ms", "bound_ms", "bubble_fraction", "peak_memory_bytes", "live_activations",
                           "live_activation_bytes", "steps_overlap", "within_memory_limit", "refused"});
  std::string out = csv_line(head);
  for (const SweepRow& row : sweep.rows) {
    std::vector<std::string> cells;
    for (const SettingValue& setting : row.given) cells.push_back(setting.value);
    if (row.result) {
      cells.insert(cells.end(), {to_text(row.result->step_time_ms), row.result->bound_ms ? to_text(*row.result->bound_ms) : "",
                                 to_text(row.result->bubble_fraction),
                                 std::to_string(row.result->peak_memory_bytes), std::to_string(row.result->live_activations),
                                 std::to_string(row.result->live_activation_bytes), row.result->steps_overlap ? "1" : "0",
                                 sweep.can_win(row) ? "1" : "0", ""});
    } else {
      cells.insert(cells.end(), {"", "", "", "", "", "", "", "0", row.refusal});
    }
    out += csv_line(cells);
  }
  return out;
}

}  // namespace pdl
