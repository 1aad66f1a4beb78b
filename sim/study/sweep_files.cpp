// A sweep as JSON and as CSV: the same facts under the same names.
#include <algorithm>
#include <ostream>
#include <sstream>

#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/run/setting_json.hpp"
#include "sim/study/sweep.hpp"
#include "sim/study/sweep_words.hpp"

namespace pdl {
namespace {

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

nlohmann::ordered_json row_to_json(const Sweep& sweep, const SweepRow& row) {
  nlohmann::ordered_json config = nlohmann::ordered_json::object(), entry;
  for (const SettingValue& setting : row.settings.empty() ? row.given : row.settings)
    config[setting.name] = setting_to_json(setting);
  entry["config"] = config;
  if (row.result) {
    entry["step_time_ms"] = {{"median", row.result->step_time_ms}};
    if (const auto& bar = row.result->error_bar) {
      entry["step_time_ms"]["half_width_90"] = row.result->step_time_ms * bar->half_width_percent / 100;
      entry["half_width_90_percent"] = bar->half_width_percent;
      entry["probed"] = bar->probed();
    }
    if (row.result->bound_ms) entry["bound_ms"] = *row.result->bound_ms;
    entry["throughput_samples_per_s"] = row.result->throughput_samples_per_s;
    if (sweep.scaling) {
      const auto& scaling = row.scaling;
      entry["speedup"] = scaling ? nlohmann::ordered_json(scaling->speedup) : nlohmann::ordered_json();
      entry["efficiency"] = scaling ? nlohmann::ordered_json(scaling->efficiency) : nlohmann::ordered_json();
      entry["speedup_against_row"] = scaling ? nlohmann::ordered_json(scaling->base_row) : nlohmann::ordered_json();
    }
    entry["exposed_communication_fraction"] = row.result->exposed_communication_fraction;
    entry["bubble_fraction"] = row.result->bubble_fraction;
    entry["idle_fraction"] = row.result->idle_fraction;
    entry["peak_memory_bytes"] = row.result->peak_memory_bytes;
    entry["live_activations"] = row.result->live_activations;
    entry["live_activation_bytes"] = row.result->live_activation_bytes;
    entry["steps_overlap"] = row.result->steps_overlap;
    entry["within_memory_limit"] = sweep.can_win(row);
    entry["warnings"] = row.result->warnings;
    if (row.result->throughput_tokens_per_s) entry["throughput_tokens_per_s"] = *row.result->throughput_tokens_per_s;
    if (row.result->mfu) entry["mfu"] = *row.result->mfu;
  } else {
    entry["refused"] = {{"exit_code", row.exit_code}, {"reason", row.refusal}};
  }
  return entry;
}

nlohmann::ordered_json json_without_rows(const Sweep& sweep) {
  const auto index = [](const std::optional<std::size_t>& row) {
    return row ? nlohmann::ordered_json(*row) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json limit;
  if (sweep.memory_limit_bytes) limit = *sweep.memory_limit_bytes;
  nlohmann::ordered_json scaling;
  if (sweep.scaling) scaling = to_string(*sweep.scaling);
  return {{"source", sweep.source},
          {"varying", sweep.varying},
          {"memory_limit_bytes", limit},
          {"scaling", scaling},
          {"rows", nlohmann::ordered_json::array()},
          {"fastest", index(sweep.fastest())},
          {"tied_with_fastest", sweep.tied_with_fastest()},
          {"least_memory", index(sweep.least_memory())}};
}

std::vector<std::string> result_columns(const Sweep& sweep) {
  std::vector<std::string> columns = {"step_time_ms",
                                      "bound_ms",
                                      "throughput_samples_per_s",
                                      "speedup",
                                      "efficiency",
                                      "exposed_communication_fraction",
                                      "bubble_fraction",
                                      "idle_fraction",
                                      "peak_memory_bytes",
                                      "live_activations",
                                      "live_activation_bytes",
                                      "steps_overlap",
                                      "within_memory_limit",
                                      "refused",
                                      "half_width_90_percent",
                                      "probed"};
  const bool tokens = std::any_of(sweep.rows.begin(), sweep.rows.end(), [](const SweepRow& row) {
    return row.result && row.result->throughput_tokens_per_s;
  });
  if (tokens) columns.insert(columns.end(), {"throughput_tokens_per_s", "mfu"});
  return columns;
}

std::vector<std::string> result_cells(const Sweep& sweep, const SweepRow& row) {
  const SweepResult& result = *row.result;
  const auto text = [](const std::optional<double>& number) { return number ? to_text(*number) : ""; };
  std::vector<std::string> cells = {to_text(result.step_time_ms),
                                    text(result.bound_ms),
                                    to_text(result.throughput_samples_per_s),
                                    row.scaling ? to_text(row.scaling->speedup) : "",
                                    row.scaling ? to_text(row.scaling->efficiency) : "",
                                    to_text(result.exposed_communication_fraction),
                                    to_text(result.bubble_fraction),
                                    to_text(result.idle_fraction),
                                    std::to_string(result.peak_memory_bytes),
                                    std::to_string(result.live_activations),
                                    std::to_string(result.live_activation_bytes),
                                    result.steps_overlap ? "1" : "0",
                                    sweep.can_win(row) ? "1" : "0",
                                    "",
                                    result.error_bar ? to_text(result.error_bar->half_width_percent) : "",
                                    result.error_bar ? (result.error_bar->probed() ? "1" : "0") : ""};
  if (result.throughput_tokens_per_s)
    cells.insert(cells.end(), {text(result.throughput_tokens_per_s), text(result.mfu)});
  return cells;
}

/// Up to the reason: `within_memory_limit` and `refused`.
std::vector<std::string> refused_cells(const SweepRow& row) {
  constexpr std::size_t kBefore = 12;
  std::vector<std::string> cells(kBefore);
  cells.insert(cells.end(), {"0", row.refusal});
  return cells;
}

/// As write_json() has it.
std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

nlohmann::ordered_json sweep_json(const Sweep& sweep) {
  nlohmann::ordered_json json = json_without_rows(sweep);
  for (const SweepRow& row : sweep.rows) json["rows"].push_back(row_to_json(sweep, row));
  return json;
}

void write_sweep_json(const Sweep& sweep, std::ostream& out) {
  const std::string rest = text_of(json_without_rows(sweep)), place = "\"rows\": []";
  const std::size_t rows = rest.find("\n " + place) + place.size() + 1;  // the ']' of the empty list
  out << rest.substr(0, rows);
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    out << (r == 0 ? "\n  " : ",\n  ");
    for (const char c : text_of(row_to_json(sweep, sweep.rows[r]))) {
      out << c;
      if (c == '\n') out << "  ";  // two levels deep
    }
  }
  out << (sweep.rows.empty() ? "" : "\n ") << rest.substr(rows) << "\n";
}

void write_sweep_csv(const Sweep& sweep, std::ostream& out) {
  std::vector<std::string> words = given_words(sweep);
  for (const std::string& name : differing_words(sweep)) {
    if (std::find(words.begin(), words.end(), name) == words.end()) words.push_back(name);
  }
  const std::vector<std::string> columns = result_columns(sweep);
  std::vector<std::string> head = words;
  head.insert(head.end(), columns.begin(), columns.end());
  out << csv_line(head);
  for (const SweepRow& row : sweep.rows) {
    std::vector<std::string> cells;
    for (const std::string& name : words) cells.push_back(word_of(row, name));
    const std::vector<std::string> results = row.result ? result_cells(sweep, row) : refused_cells(row);
    cells.insert(cells.end(), results.begin(), results.end());
    cells.resize(head.size());  // without the last ones: a row that has no tokens
    out << csv_line(cells);
  }
}

std::string sweep_csv(const Sweep& sweep) {
  std::ostringstream out;
  write_sweep_csv(sweep, out);
  return out.str();
}

}  // namespace pdl
