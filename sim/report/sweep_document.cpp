#include "sim/report/sweep_document.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/report/run_document.hpp"
#include "sim/report/warnings.hpp"
#include "sim/spec/settings.hpp"
#include "sim/study/common_settings.hpp"
#include "sim/study/sweep_values.hpp"
#include "sim/study/sweep_words.hpp"

namespace pdl {
namespace {

std::string words_of(const SweepRow& row, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (const std::string word = word_of(row, name); word != "-")
      text += (text.empty() ? "" : ", ") + name + " " + word;
  }
  return text;
}

/// "schedule zb-v, microbatches 8": what tells the row from the others.
std::string label(const Sweep& sweep, const SweepRow& row) {
  const std::string text = words_of(row, sweep.varying);
  return text.empty() ? "the only configuration" : text;
}

/// What tells a series of rows that differ in their GPUs from the others.
std::string label_without_gpus(const Sweep& sweep, const SweepRow& row) {
  std::vector<std::string> names;
  for (const std::string& name : sweep.varying) {
    if (name != "gpus" && !(name == "batch" && sweep.scaling == Scaling::weak)) names.push_back(name);
  }
  const std::string text = words_of(row, names);
  return text.empty() ? "predicted" : text;
}

struct Winners {
  std::optional<std::size_t> fastest, least_memory;
  std::vector<std::size_t> tied;  // with the fastest
  bool comparable = true;         // why_no_fastest() of the sweep says nothing
  std::string mark;               // of the fastest: "most samples/s" where steps differ in samples
};

constexpr double kTellableMemory = 0.01;

/// The row with least memory, unless that is hardly less than the fastest row needs, or than any where it is the
/// fastest.
std::optional<std::size_t> tellable_least_memory(const Sweep& sweep) {
  const auto fastest = sweep.fastest(), least = sweep.least_memory();
  if (!fastest || !least) return std::nullopt;
  std::int64_t other = sweep.rows[*fastest].result->peak_memory_bytes;
  if (fastest == least) {
    for (const SweepRow& row : sweep.rows)
      if (row.result) other = std::max(other, row.result->peak_memory_bytes);
  }
  const auto bytes = static_cast<double>(sweep.rows[*least].result->peak_memory_bytes);
  return bytes < (1 - kTellableMemory) * static_cast<double>(other) ? least : std::nullopt;
}

/// With synthetic costs a micro-batch takes the same time however many there are: rows with more of them do more work
/// in a step, and neither their step times nor their samples a second compare.
bool has_unlike_work(const Sweep& sweep) {
  const bool vary = std::find(sweep.varying.begin(), sweep.varying.end(), "microbatches") != sweep.varying.end();
  return vary && std::any_of(sweep.rows.begin(), sweep.rows.end(),
                             [](const SweepRow& row) { return find_setting(row.settings, "tf") != nullptr; });
}

/// Why no row is the fastest; empty where one may be.
std::string why_no_fastest(const Sweep& sweep) {
  if (has_unlike_work(sweep)) {
    return "No row is the fastest: --tf is the time of one micro-batch, however many there are, so that rows with more "
           "micro-batches do more work in a step.";
  }
  const std::vector<std::string> words = sweep.words_of_other_models();
  return words.empty() ? ""
                       : "No row is the fastest: rows that differ in " + list_words(words) +
                             " train different models, and a step of each is other work.";
}

std::string mark_of_fastest(Comparison comparison) {
  switch (comparison) {
    case Comparison::tokens_per_s: return "most tokens/s";
    case Comparison::samples_per_s: return "most samples/s";
    case Comparison::step_time: break;
  }
  return "fastest";
}

std::string mark_of(const Sweep& sweep, const Winners& winners, std::size_t r) {
  const SweepRow& row = sweep.rows[r];
  if (!row.result) return row.exit_code == kExitInput ? "refused" : "cannot run";
  if (!sweep.can_win(row)) return "above " + binary_bytes(*sweep.memory_limit_bytes);
  if (!winners.comparable) return r == winners.least_memory ? "least memory" : "";
  const bool tied = std::binary_search(winners.tied.begin(), winners.tied.end(), r);
  const bool tie = tied || (r == winners.fastest && !winners.tied.empty());
  std::string mark = tie ? "tie" : r == winners.fastest ? winners.mark : "";
  if (r == winners.least_memory) mark += mark.empty() ? "least memory" : ", least memory";
  return mark;
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

/// A column of what was predicted. `value`: nothing is shown as "-".
struct ResultColumn {
  TableColumn head;
  int digits = 0;
  std::function<std::optional<double>(const SweepRow&)> value;
};

ResultColumn memory_column(const Sweep& sweep, TableColumn head, std::int64_t (*bytes)(const SweepResult&)) {
  const bool small = memory_in_mib(sweep);
  head.key += small ? "_mib" : "_gib";
  head.unit = small ? "MiB" : "GiB";
  const double unit = small ? 1 << 20 : 1 << 30;
  return {std::move(head), 2, [=](const SweepRow& row) { return static_cast<double>(bytes(*row.result)) / unit; }};
}

/// Of models that take tokens.
void add_token_columns(const Sweep& sweep, std::vector<ResultColumn>& columns) {
  const auto any = [&](std::optional<double> SweepResult::* value) {
    return std::any_of(sweep.rows.begin(), sweep.rows.end(),
                       [&](const SweepRow& row) { return row.result && (*row.result).*value; });
  };
  if (any(&SweepResult::throughput_tokens_per_s)) {
    columns.push_back({{"throughput_tokens_per_s", "throughput", "tokens/s", ""}, 0, [](const SweepRow& row) {
                         return row.result->throughput_tokens_per_s;
                       }});
  }
  if (any(&SweepResult::mfu)) {
    columns.push_back(
        {{"mfu_percent", "MFU", "%",
          "FLOPs of the model's products and attention as a share of the most that the GPUs could do in the step"},
         1,
         [](const SweepRow& row) {
           const auto& mfu = row.result->mfu;
           return mfu ? std::optional(100 * *mfu) : std::nullopt;
         }});
  }
}

void add_scaling_columns(std::vector<ResultColumn>& columns) {
  columns.push_back({{"speedup", "speed-up", "", ""}, 2, [](const SweepRow& row) {
                       return row.scaling ? std::optional(row.scaling->speedup) : std::nullopt;
                     }});
  columns.push_back({{"efficiency_percent", "efficiency", "%", ""}, 1, [](const SweepRow& row) {
                       return row.scaling ? std::optional(100 * row.scaling->efficiency) : std::nullopt;
                     }});
}

void add_idle_columns(const Sweep& sweep, std::vector<ResultColumn>& columns) {
  const auto any = [&](bool bubble) {
    return std::any_of(sweep.rows.begin(), sweep.rows.end(),
                       [&](const SweepRow& row) { return row.result && row.result->has_bubble == bubble; });
  };
  if (any(true)) {
    columns.push_back({{"bubble_percent", "bubble", "%", ""}, 1, [](const SweepRow& row) {
                         return row.result->has_bubble ? std::optional(100 * row.result->bubble_fraction)
                                                       : std::nullopt;
                       }});
  }
  if (any(false)) {
    columns.push_back(
        {{"idle_percent", "idle", "%", ""}, 1, [](const SweepRow& row) { return 100 * row.result->idle_fraction; }});
  }
}

bool has_error_bars(const Sweep& sweep) {
  return std::any_of(sweep.rows.begin(), sweep.rows.end(),
                     [](const SweepRow& row) { return row.result && row.result->error_bar; });
}

std::vector<ResultColumn> result_columns(const Sweep& sweep) {
  std::vector<ResultColumn> columns;
  columns.push_back(
      {{"step_time_ms", "step time", "ms", ""}, 3, [](const SweepRow& row) { return row.result->step_time_ms; }});
  if (has_error_bars(sweep)) {
    columns.push_back({half_width_column(), 2, [](const SweepRow& row) {
                         const auto& bar = row.result->error_bar;
                         return bar ? std::optional(bar->half_width_percent) : std::nullopt;
                       }});
  }
  if (sweep.scaling || !sweep.same_samples()) {
    columns.push_back({{"throughput_samples_per_s", "throughput", "samples/s", ""}, 0, [](const SweepRow& row) {
                         return row.result->throughput_samples_per_s;
                       }});
  }
  add_token_columns(sweep, columns);
  if (sweep.scaling) add_scaling_columns(columns);
  if (sweep.scaling || has_replicas(sweep)) {
    columns.push_back({{"exposed_communication_percent", "exposed communication", "%",
                        "share of the step in which a GPU communicates and computes nothing, the mean over the GPUs"},
                       1,
                       [](const SweepRow& row) { return 100 * row.result->exposed_communication_fraction; }});
  }
  if (!sweep.scaling) {
    columns.push_back({{"ideal_step_time_ms", "ideal step time", "ms",
                        "of the same schedule with its computation alone: no transfers, no host, no optimizer"},
                       3,
                       [](const SweepRow& row) { return row.result->bound_ms; }});
  }
  add_idle_columns(sweep, columns);
  columns.push_back(memory_column(sweep, {"peak_memory", "peak memory", "", "the maximum over the GPUs"},
                                  [](const SweepResult& result) { return result.peak_memory_bytes; }));
  if (sweep.scaling) return columns;
  columns.push_back({{"in_flight_microbatches", "in-flight micro-batches", "",
                      "the most that one GPU has forwarded and keeps for a backward, counted once a stage"},
                     0,
                     [](const SweepRow& row) { return static_cast<double>(row.result->live_activations); }});
  columns.push_back(memory_column(sweep, {"activation_memory", "activation memory", "", "what these keep"},
                                  [](const SweepResult& result) { return result.live_activation_bytes; }));
  return columns;
}

TableCell setting_cell(const SweepRow& row, const std::string& name) {
  const std::string word = word_of(row, name);
  if (word == "-" || !is_number(*find_row(name))) return word;
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  return *end == '\0' ? TableCell(word, value) : TableCell(word);
}

std::vector<TableCell> cells_of_row(const Sweep& sweep, const Winners& winners, const std::vector<std::string>& words,
                                    const std::vector<ResultColumn>& columns, std::size_t r) {
  const SweepRow& row = sweep.rows[r];
  std::vector<TableCell> cells = {{std::to_string(r + 1), static_cast<double>(r + 1)}, mark_of(sweep, winners, r)};
  for (const std::string& name : words) cells.push_back(setting_cell(row, name));
  for (const ResultColumn& column : columns) {
    const std::optional<double> value = row.result ? column.value(row) : std::nullopt;
    cells.push_back(value ? TableCell(fixed(*value, column.digits), *value) : TableCell("-"));
  }
  return cells;
}

Table sweep_table(const Sweep& sweep) {
  Table table{
      .name = "sweep", .columns = {{"row", "row"}, {"verdict", "verdict", "", "", Align::left}}, .key_columns = 2};
  const std::vector<std::string> words = differing_words(sweep);
  for (const std::string& name : words) {
    table.columns.push_back(
        {name, name, is_synthetic_cost(name) ? "ms" : "", "", is_number(*find_row(name)) ? Align::right : Align::left});
  }
  const std::vector<ResultColumn> columns = result_columns(sweep);
  for (const ResultColumn& column : columns) table.columns.push_back(column.head);
  const Winners winners{sweep.fastest(), tellable_least_memory(sweep), sweep.tied_with_fastest(),
                        why_no_fastest(sweep).empty(), mark_of_fastest(sweep.comparison())};
  for (std::size_t r = 0; r < sweep.rows.size(); ++r)
    table.rows.push_back(cells_of_row(sweep, winners, words, columns, r));
  return table;
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

std::string scaling_text(const Sweep& sweep) {
  const bool strong = *sweep.scaling == Scaling::strong;
  std::string text = strong ? "Strong scaling: the global batch is held" + held_batch(sweep, false) +
                                  " and shared by more GPUs. Speed-up: the step time of "
                            : "Weak scaling: the batch of a GPU is held" + held_batch(sweep, true) +
                                  " and the global batch grows with the GPUs. Speed-up: the throughput / that of ";
  text += "the row with the fewest GPUs and otherwise equal settings" +
          std::string(strong ? " / that of the row" : "") + ". Efficiency: speed-up / (GPUs / fewest GPUs).";
  const auto alone = [](const SweepRow& row) { return row.result && !row.scaling; };
  if (std::any_of(sweep.rows.begin(), sweep.rows.end(), alone))
    text += " -: there is no other row with otherwise equal settings.";
  return text;
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
  void add_to(Document& document) const {
    for (const auto& [note, rows] : notes_) document.add(Paragraph{rows + ": " + note, 2});
  }

 private:
  std::vector<std::pair<std::string, std::string>> notes_;  // note, rows
};

void add_notes(const Sweep& sweep, Document& document) {
  NotesOfRows notes;
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    const SweepRow& row = sweep.rows[r];
    if (!row.result) notes.add(r, row.refusal);
    if (row.result && row.result->steps_overlap) {
      notes.add(r,
                "steps overlap, without a barrier at the optimizer: the step time is the maximum over the GPUs of the "
                "time from a GPU's first task to its last (with the barrier: --overlap-steps 0)");
    }
  }
  notes.add_to(document);
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

/// "; tie: within the error bars of schedule 1f1b, and of 2 rows more", or nothing.
std::string tie_text(const Sweep& sweep) {
  const std::vector<std::size_t> tied = sweep.tied_with_fastest();
  if (tied.empty()) return "";
  const Comparison by = sweep.comparison();
  const auto is_better = [&](std::size_t a, std::size_t b) {
    return compared(*sweep.rows[a].result, by) < compared(*sweep.rows[b].result, by);
  };
  const std::size_t next = *std::min_element(tied.begin(), tied.end(), is_better);
  std::string text = "; tie: within the error bars of " + label(sweep, sweep.rows[next]);
  if (tied.size() > 1)
    text += ", and of " + std::to_string(tied.size() - 1) + (tied.size() == 2 ? " row more" : " rows more");
  return text;
}

/// "Most samples/s: batch 256, 1024 samples/s; least memory: batch 64, 0.15 MiB of peak memory."
std::string most_per_second_text(const Sweep& sweep) {
  const SweepRow &winner = sweep.rows[*sweep.fastest()], &smallest = sweep.rows[*sweep.least_memory()];
  const Comparison by = sweep.comparison();
  const std::string unit = by == Comparison::tokens_per_s ? " tokens/s" : " samples/s";
  return "Most" + unit + ": " + label(sweep, winner) + ", " + fixed(-compared(*winner.result, by), 0) + unit +
         tie_text(sweep) + "; least memory: " + label(sweep, smallest) + ", " +
         binary_bytes(smallest.result->peak_memory_bytes) + " of peak memory.";
}

std::string winners_text(const Sweep& sweep) {
  const auto fastest = sweep.fastest(), smallest = sweep.least_memory();
  if (!fastest) return "";
  if (const std::string reason = why_no_fastest(sweep); !reason.empty()) return reason;
  if (sweep.comparison() != Comparison::step_time) return most_per_second_text(sweep);
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
    text +=
        " and " + less_than(time(*fastest), time(slowest)) + " the slowest (" + label(sweep, sweep.rows[slowest]) + ")";
  }
  const std::int64_t of_fastest = winner.result->peak_memory_bytes,
                     bytes = sweep.rows[*smallest].result->peak_memory_bytes;
  text += tie_text(sweep) + "; least memory: ";
  if (smallest == fastest) return text + "the same, " + binary_bytes(bytes) + " of peak memory.";
  return text + label(sweep, sweep.rows[*smallest]) + ", " + binary_bytes(bytes) + " of peak memory, " +
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

std::vector<SettingValue> settings_of_all_rows(const Sweep& sweep) {
  std::vector<std::vector<SettingValue>> settings;
  for (const SweepRow& row : sweep.rows) settings.push_back(row.settings.list());
  fill_in_refused(sweep, settings);
  return common_settings(settings);
}

/// "sweep: depth 8, dim 4096": with the model where all rows have the same.
std::string title_of(const Sweep& sweep) {
  std::string model;
  for (const SettingValue& setting : settings_of_all_rows(sweep)) {
    if (is_of_model(*find_row(setting.name)))
      model += (model.empty() ? ": " : ", ") + setting.name + " " + setting.value;
  }
  return "sweep" + model;
}

void add_common_settings(const Sweep& sweep, Document& document) {
  std::string text;
  for (const SettingValue& setting : settings_of_all_rows(sweep))
    text += (text.empty() ? "" : ", ") + setting.name + " " + setting.value;
  if (!text.empty()) document.add(Paragraph{"all rows: " + text, 2});
}

double gpus_of(const SweepRow& row) {
  return static_cast<double>(parse_whole("gpus", find_setting(row.settings, "gpus")->value, 1, 1'000'000'000));
}

/// A line a series of rows that differ in their GPUs, beside the ideal one.
ChartFigure scaling_figure(const Sweep& sweep) {
  ChartFigure figure{.title = "Speed-up", .kind = ChartKind::line, .x_title = "GPUs", .y_title = "speed-up"};
  std::map<std::size_t, std::size_t> place_of;  // series of the sweep -> of the figure
  ChartSeries ideal{.name = "ideal", .reference = true};
  for (const SweepRow& row : sweep.rows) {
    if (!row.scaling) continue;
    const auto [place, is_new] = place_of.emplace(row.series, figure.series.size());
    if (is_new) figure.series.push_back({.name = label_without_gpus(sweep, row)});
    const double gpus = gpus_of(row);
    figure.series[place->second].x.push_back(gpus);
    figure.series[place->second].y.push_back(row.scaling->speedup);
    if (place->second > 0) continue;
    ideal.x.push_back(gpus);
    ideal.y.push_back(gpus / gpus_of(sweep.rows[row.scaling->base_row]));
  }
  figure.series.push_back(std::move(ideal));
  return figure;
}

/// A bar a row, named by what varies.
ChartFigure step_time_figure(const Sweep& sweep) {
  const bool one = sweep.varying.size() == 1;
  ChartFigure figure{.title = "Step time",
                     .kind = ChartKind::bar,
                     .x_title = one ? sweep.varying.front() : "configuration",
                     .y_title = "step time (ms)"};
  ChartSeries series{.name = "step time"};
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    if (!sweep.rows[r].result) continue;
    series.x.push_back(static_cast<double>(figure.x_labels.size()));
    series.y.push_back(sweep.rows[r].result->step_time_ms);
    figure.x_labels.push_back(one ? word_of(sweep.rows[r], sweep.varying.front()) : label(sweep, sweep.rows[r]));
  }
  figure.series.push_back(std::move(series));
  return figure;
}

void add_figures(const Sweep& sweep, Document& document) {
  if (std::none_of(sweep.rows.begin(), sweep.rows.end(), [](const SweepRow& row) { return row.result.has_value(); }))
    return;
  document.add(step_time_figure(sweep));
  if (sweep.scaling) document.add(scaling_figure(sweep));
}

}  // namespace

Document sweep_document(const Sweep& sweep) {
  Document document{.title = title_of(sweep)};
  if (!sweep.source.empty()) document.add(Paragraph{sweep.source, 2});
  add_common_settings(sweep, document);
  document.add(sweep_table(sweep));
  if (sweep.scaling) document.add(Paragraph{scaling_text(sweep), 2});
  add_notes(sweep, document);
  const std::string winners = winners_text(sweep);
  if (!winners.empty()) document.add(Paragraph{not_compared_text(sweep) + winners});
  add_figures(sweep, document);
  WarningList warnings("row");
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    if (const auto& result = sweep.rows[r].result)
      warnings.add(std::to_string(r + 1), result->warnings, result->warning_shares);
  }
  warnings.add_to(document);
  return document;
}

}  // namespace pdl
