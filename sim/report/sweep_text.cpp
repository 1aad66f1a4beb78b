#include "sim/report/sweep_text.hpp"

#include <algorithm>
#include <functional>

#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/report/common_settings_text.hpp"
#include "sim/report/text_table.hpp"
#include "sim/report/warnings.hpp"
#include "sim/spec/settings.hpp"
#include "sim/study/sweep_values.hpp"
#include "sim/study/sweep_words.hpp"

namespace pdl {
namespace {

/// "schedule zb-v, microbatches 8": what tells the row from the others.
std::string label(const Sweep& sweep, const SweepRow& row) {
  std::string text;
  for (const std::string& name : sweep.varying) {
    if (const std::string word = word_of(row, name); word != "-")
      text += (text.empty() ? "" : ", ") + name + " " + word;
  }
  return text.empty() ? "the only configuration" : text;
}

struct Winners {
  std::optional<std::size_t> fastest, least_memory;
};

std::string mark_of(const Sweep& sweep, const Winners& winners, std::size_t r) {
  const SweepRow& row = sweep.rows[r];
  if (!row.result) return row.exit_code == kExitInput ? "refused" : "cannot run";
  if (!sweep.can_win(row)) return "above " + binary_bytes(*sweep.memory_limit_bytes);
  // Steps of different samples: the winner may have the longest one.
  const std::string first = sweep.same_samples() ? "fastest" : "most samples/s";
  if (r == winners.fastest) return r == winners.least_memory ? first + ", least memory" : first;
  return r == winners.least_memory ? "least memory" : "";
}

/// Small models are shown in MiB.
bool memory_in_mib(const Sweep& sweep) {
  return std::all_of(sweep.rows.begin(), sweep.rows.end(),
                     [](const SweepRow& row) { return !row.result || row.result->peak_memory_bytes < 1 << 30; });
}

/// Any row exchanges gradients: what of it is exposed is worth a column.
bool has_replicas(const Sweep& sweep) {
  return std::any_of(sweep.rows.begin(), sweep.rows.end(), [](const SweepRow& row) {
    return std::any_of(row.settings.begin(), row.settings.end(), [](const SettingValue& s) {
      return s.name == "dp" || (s.name == "strategy" && (s.value == "dp" || s.value == "ddp"));
    });
  });
}

/// A column of what was predicted; a row that cannot run has "-" there.
struct ResultColumn {
  TextColumn head;
  std::function<std::string(const SweepRow&)> cell;
};

std::vector<ResultColumn> result_columns(const Sweep& sweep) {
  const bool small = memory_in_mib(sweep);
  const std::string unit = small ? "MiB" : "GiB";
  const auto memory = [small](std::int64_t bytes) { return small ? mib(bytes) : gib(bytes); };
  std::vector<ResultColumn> columns;
  const auto add = [&](const std::string& title, const std::string& unit_of,
                       std::function<std::string(const SweepRow&)> cell) {
    columns.push_back({{title, unit_of}, std::move(cell)});
  };
  add("step time", "ms", [](const SweepRow& row) { return fixed(row.result->step_time_ms, 3); });
  if (sweep.scaling || !sweep.same_samples()) {
    add("throughput", "samples/s", [](const SweepRow& row) { return fixed(row.result->throughput_samples_per_s, 0); });
  }
  if (sweep.scaling) {
    add("speed-up", "", [](const SweepRow& row) { return row.scaling ? fixed(row.scaling->speedup, 2) : "-"; });
    add("efficiency", "%",
        [](const SweepRow& row) { return row.scaling ? fixed(100 * row.scaling->efficiency, 1) : "-"; });
  }
  if (sweep.scaling || has_replicas(sweep)) {
    add("exposed", "comm. %",
        [](const SweepRow& row) { return fixed(100 * row.result->exposed_communication_fraction, 1); });
  }
  if (!sweep.scaling) {
    add("bound", "ms",
        [](const SweepRow& row) { return row.result->bound_ms ? fixed(*row.result->bound_ms, 3) : "-"; });
  }
  const auto any = [&](bool bubble) {
    return std::any_of(sweep.rows.begin(), sweep.rows.end(),
                       [&](const SweepRow& row) { return row.result && row.result->has_bubble == bubble; });
  };
  if (any(true))
    add("bubble", "%",
        [](const SweepRow& row) { return row.result->has_bubble ? fixed(100 * row.result->bubble_fraction, 1) : "-"; });
  if (any(false)) add("idle", "%", [](const SweepRow& row) { return fixed(100 * row.result->idle_fraction, 1); });
  add("peak memory", unit, [memory](const SweepRow& row) { return memory(row.result->peak_memory_bytes); });
  if (!sweep.scaling) {
    add("live", "activations", [](const SweepRow& row) { return std::to_string(row.result->live_activations); });
    add("their size", unit, [memory](const SweepRow& row) { return memory(row.result->live_activation_bytes); });
  }
  return columns;
}

std::string table_text(const Sweep& sweep) {
  TextTable table{{{"row", ""}}, {}};
  const std::vector<std::string> words = differing_words(sweep);
  for (const std::string& name : words) {
    table.columns.push_back(
        {name, is_synthetic_cost(name) ? "ms" : "", is_number(*find_row(name)) ? Align::right : Align::left});
  }
  const std::vector<ResultColumn> columns = result_columns(sweep);
  for (const ResultColumn& column : columns) table.columns.push_back(column.head);
  table.columns.push_back({"", "", Align::left});
  const Winners winners{sweep.fastest(), sweep.least_memory()};
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    const SweepRow& row = sweep.rows[r];
    std::vector<std::string> cells = {std::to_string(r + 1)};
    for (const std::string& name : words) cells.push_back(word_of(row, name));
    for (const ResultColumn& column : columns) cells.push_back(row.result ? column.cell(row) : "-");
    cells.push_back(mark_of(sweep, winners, r));
    table.rows.push_back(std::move(cells));
  }
  return to_text(table);
}

/// "64 samples", or nothing where the rows with the fewest GPUs differ in it. `of_gpu`: a GPU's part.
std::string held_batch(const Sweep& sweep, bool of_gpu) {
  std::string held;
  for (const SweepRow& row : sweep.rows) {
    if (!row.scaling) continue;
    const SweepRow& base = sweep.rows[row.scaling->base_row];
    const auto whole = [&](const std::string& name) {
      return parse_whole(name, find_setting(base.settings, name)->value, 1, 1'000'000'000);
    };
    const double samples = static_cast<double>(whole("batch")) / static_cast<double>(of_gpu ? whole("gpus") : 1);
    const std::string text = " (" + to_text(samples) + (samples == 1 ? " sample)" : " samples)");
    if (!held.empty() && held != text) return "";
    held = text;
  }
  return held;
}

std::string scaling_text(const Sweep& sweep, std::size_t width) {
  if (!sweep.scaling) return "";
  const bool strong = *sweep.scaling == Scaling::strong;
  std::string text = strong ? "scaling: strong: the global batch is held" + held_batch(sweep, false) +
                                  ", more GPUs share it; speed-up: step time of "
                            : "scaling: weak: the batch of a GPU is held" + held_batch(sweep, true) +
                                  ", the global batch grows with the GPUs; speed-up: throughput / that of ";
  text += "the row with the fewest GPUs and otherwise equal settings" +
          std::string(strong ? " / that of the row" : "") + "; efficiency: speed-up / (GPUs / fewest GPUs)";
  const auto alone = [](const SweepRow& row) { return row.result && !row.scaling; };
  if (std::any_of(sweep.rows.begin(), sweep.rows.end(), alone))
    text += "; -: there is no other row with otherwise equal settings";
  return wrap(text, width, 2);
}

std::string legend(const Sweep& sweep, std::size_t width) {
  const std::string exposed = sweep.scaling || has_replicas(sweep)
                                  ? "exposed: share of the step in which a GPU communicates and is at no task of "
                                    "computation, averaged over the GPUs; "
                                  : "";
  if (sweep.scaling) return wrap(exposed + "peak memory: of the GPU that has most", width);
  return wrap(
      exposed +
          "bound: the order with its compute costs alone, no transfers, no host, no optimizer; peak memory, live "
          "activations: of the GPU that has most; live activations: pairs of a stage and a micro-batch that are kept "
          "for a backward",
      width);
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
      notes.add(
          r,
          "steps overlap, without a barrier at the optimizer: a step is the time of the GPU that is at it longest "
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

/// "Of 12 rows, 4 could not be predicted (why: row 1, 2, 3, 4 above); the verdict is about the other 8. ", or nothing.
std::string not_compared_text(const Sweep& sweep) {
  std::string rows;
  std::size_t refused = 0, above = 0;
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    const SweepRow& row = sweep.rows[r];
    above += row.result && !sweep.can_win(row) ? 1 : 0;
    if (row.result) continue;
    ++refused;
    rows += (rows.empty() ? "row " : ", ") + std::to_string(r + 1);
  }
  if (refused + above == 0) return "";
  std::string text = "Of " + std::to_string(sweep.rows.size()) + " rows, ";
  if (refused > 0) text += std::to_string(refused) + " could not be predicted (why: " + rows + " above)";
  if (above > 0)
    text += (refused > 0 ? ", " : "") + std::to_string(above) + (above == 1 ? " needs" : " need") +
            " more memory than allowed";
  return text + "; the verdict is about the other " + std::to_string(sweep.rows.size() - refused - above) + ". ";
}

std::string winners_text(const Sweep& sweep) {
  const auto fastest = sweep.fastest(), smallest = sweep.least_memory();
  if (!fastest) return "";
  const SweepRow& winner = sweep.rows[*fastest];
  if (!sweep.same_samples()) {
    return "Most samples/s: " + label(sweep, winner) + ", " + fixed(winner.result->throughput_samples_per_s, 0) +
           " samples/s; least memory: " + label(sweep, sweep.rows[*smallest]) + ", " +
           binary_bytes(sweep.rows[*smallest].result->peak_memory_bytes) + " on its fullest GPU.";
  }
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
    text +=
        " and " + less_than(time(*fastest), time(slowest)) + " the slowest (" + label(sweep, sweep.rows[slowest]) + ")";
  }
  const std::int64_t of_fastest = winner.result->peak_memory_bytes,
                     bytes = sweep.rows[*smallest].result->peak_memory_bytes;
  text += "; least memory: ";
  if (smallest == fastest) return text + "the same, " + binary_bytes(bytes) + " on its fullest GPU.";
  return text + label(sweep, sweep.rows[*smallest]) + ", " + binary_bytes(bytes) + " on its fullest GPU, " +
         less_than(static_cast<double>(bytes), static_cast<double>(of_fastest)) + " the fastest.";
}

/// A row that was refused before it had settings: what was given for it, else what the first row that has settings has.
void fill_in_refused(const Sweep& sweep, std::vector<std::vector<SettingValue>>& settings) {
  const auto known = std::find_if(settings.begin(), settings.end(), [](const auto& row) { return !row.empty(); });
  if (known == settings.end()) return settings.clear();
  const std::vector<SettingValue> defaults = *known;
  for (std::size_t r = 0; r < settings.size(); ++r) {
    if (!settings[r].empty()) continue;
    settings[r] = defaults;
    for (SettingValue& setting : settings[r]) {
      if (const SettingValue* given = find_setting(sweep.rows[r].given, setting.name)) setting.value = given->value;
    }
  }
}

}  // namespace

std::string sweep_text(const Sweep& sweep, std::size_t width) {
  std::vector<std::vector<SettingValue>> settings;
  WarningList warnings;
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    const SweepRow& row = sweep.rows[r];
    settings.push_back(row.settings);
    if (row.result) warnings.add("row " + std::to_string(r + 1), row.result->warnings);
  }
  fill_in_refused(sweep, settings);
  std::string out = sweep.source.empty() ? "" : wrap(sweep.source, width, 2);
  out += common_settings_text(settings, width) + "\n" + table_text(sweep) + legend(sweep, width) +
         scaling_text(sweep, width) + notes_text(sweep, width) + warnings.text(width);
  const std::string winners = winners_text(sweep);
  return winners.empty() ? out : out + "\n" + wrap(not_compared_text(sweep) + winners, width);
}

}  // namespace pdl
