#include "sim/report/search_document.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

#include "sim/io/number_text.hpp"
#include "sim/report/explain_document.hpp"
#include "sim/report/run_document.hpp"
#include "sim/report/warnings.hpp"
#include "sim/spec/mesh.hpp"
#include "sim/spec/settings.hpp"
#include "sim/study/common_settings.hpp"

namespace pdl {
namespace {

constexpr std::size_t kRefusalsShown = 6;

/// Of settings that to_settings() leaves out where they say nothing special: of a pipeline, what they are then.
std::string left_out(const SearchRow& row, const SettingRow& setting) {
  if (setting.values == Values::on_off) return "0";
  const SettingValue* strategy = find_setting(row.settings, "strategy");
  return strategy && strategy->value == "pp" && setting.left_out ? setting.left_out(row.settings) : "-";
}

/// What a row says of a setting, given or by default; "-": the setting has no meaning there.
std::string word_of(const SearchRow& row, const std::string& name) {
  const SettingRow& setting = *find_row(name);
  const SettingValue* strategy = find_setting(row.settings, "strategy");
  if (strategy && strategy->value != "pp" && setting.of_pipelines) return "-";
  if (const SettingValue* given = find_setting(row.words, name)) return given->value;
  if (const SettingValue* own = find_setting(row.settings, name)) return own->value;
  return left_out(row, setting);
}

/// Distinct, in the order of the rows; numbers ascending.
std::vector<std::string> values_of(const ConfigurationSearch& search, const std::string& name) {
  std::vector<std::string> values;
  for (const SearchRow& row : search.rows) {
    const std::string word = word_of(row, name);
    if (word != "-" && std::find(values.begin(), values.end(), word) == values.end()) values.push_back(word);
  }
  if (is_number(*find_row(name))) {
    std::stable_sort(values.begin(), values.end(), [](const std::string& a, const std::string& b) {
      return std::strtod(a.c_str(), nullptr) < std::strtod(b.c_str(), nullptr);
    });
  }
  return values;
}

bool is_given(const ConfigurationSearch& search, const std::string& name) {
  return find_setting(search.space.given, name) != nullptr;
}

/// Dimensions that were searched and have several values, in the order of the search; what follows from them is left
/// out.
std::vector<std::string> varying(const ConfigurationSearch& search) {
  std::vector<std::string> names;
  for (const SearchDimension& dimension : search_dimensions()) {
    const bool searched = *dimension.tried || is_given(search, dimension.name);
    if (searched && values_of(search, dimension.name).size() > 1) names.emplace_back(dimension.name);
  }
  return names;
}

/// Those of them in which the best differ from each other.
std::vector<std::string> differing_in_best(const ConfigurationSearch& search) {
  std::vector<std::string> names = varying(search);
  std::erase_if(names, [&](const std::string& name) {
    return std::all_of(search.best.begin(), search.best.end(), [&](std::size_t row) {
      return word_of(search.rows[row], name) == word_of(search.rows[search.best.front()], name);
    });
  });
  return names;
}

std::string label(const SearchRow& row, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (const std::string word = word_of(row, name); word != "-")
      text += (text.empty() ? "" : ", ") + name + " " + word;
  }
  return text.empty() ? "the only configuration" : text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Table searched_table(const ConfigurationSearch& search, const std::vector<std::string>& names) {
  Table table{.name = "searched",
              .columns = {{"dimension", "dimension", "", "", Align::left},
                          {"values", "values", "", "", Align::left, true},
                          {"chosen_by", "chosen by", "", "", Align::left, true}}};
  for (const SearchDimension& dimension : search_dimensions()) {
    if (std::find(names.begin(), names.end(), dimension.name) == names.end()) continue;
    const bool given = is_given(search, dimension.name);
    table.rows.push_back({dimension.name, joined(values_of(search, dimension.name)), given ? "you" : dimension.tried});
  }
  return table;
}

/// "model mlp, depth 16, ...": what all configurations have in common.
std::string held_text(const ConfigurationSearch& search) {
  std::vector<std::vector<SettingValue>> settings;
  for (const SearchRow& row : search.rows) {
    if (!row.settings.empty()) settings.push_back(row.settings);
  }
  std::string text;
  for (const SettingValue& setting : common_settings(settings))
    text += (text.empty() ? "" : ", ") + setting.name + " " + setting.value;
  return text;
}

std::string what_is_trained_text(const ConfigurationSearch& search) {
  std::string text = "What is trained stays: the model, the batch, accumulation and the optimizer";
  text += is_given(search, "dtype")
              ? "; the number format varies only as given."
              : ", and the number format (another one is other training: --dtype any, or a list, searches it).";
  if (!search.synthetic && !is_given(search, "program"))
    text += " The program is pdl-run's (--program pytorch: what a Python script does; --program any: both).";
  return text;
}

std::string counts_text(const ConfigurationSearch& search) {
  const std::size_t predicted = search.predicted(), refused = search.count(Drawback::refused);
  std::size_t memory = 0, by_bounds = 0;
  for (const SearchRow& row : search.rows) {
    if (row.loss == Drawback::memory && !row.step) ++memory;
    if (row.loss != Drawback::refused && row.loss != Drawback::memory && !row.step) ++by_bounds;
  }
  const auto amount = [](std::size_t number) { return grouped(static_cast<std::int64_t>(number)); };
  std::string text = amount(search.rows.size()) + " configurations: " + amount(predicted) + " predicted";
  if (by_bounds > 0)
    text += ", " + amount(by_bounds) +
            " left out unpredicted, as their compute with fill and drain, or the first of their replicas alone, takes "
            "longer than the steps of the best";
  if (memory > 0) text += ", " + amount(memory) + " left out by the memory that they need, before prices";
  if (refused > 0) text += ", " + amount(refused) + " refused";
  if (search.priced_pieces > 0)
    text +=
        ". Their compute is made of " + grouped(search.priced_pieces) + " pieces, each priced once for these bounds";
  return text + ".";
}

std::string limit_text(const ConfigurationSearch& search) {
  if (!search.memory_limit_bytes) return "No limit of memory.";
  const std::int64_t bytes = *search.memory_limit_bytes;
  return "Memory of a GPU: at most " + (bytes < 10 << 20 ? grouped(bytes) + " bytes" : binary_bytes(bytes)) +
         (search.limit_is_capacity ? ", what the profile's GPU has." : ".");
}

bool memory_in_mib(const ConfigurationSearch& search) {
  return std::all_of(search.best.begin(), search.best.end(),
                     [&](std::size_t row) { return search.rows[row].step->peak_memory_bytes < std::int64_t{1} << 30; });
}

TableCell setting_cell(const SearchRow& row, const std::string& name) {
  const std::string word = word_of(row, name);
  if (word == "-" || !is_number(*find_row(name))) return word;
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  return *end == '\0' ? TableCell(word, value) : TableCell(word);
}

TableColumn setting_column(const std::string& name) {
  return {name, name, "", "", is_number(*find_row(name)) ? Align::right : Align::left};
}

TableCell percent_cell(double fraction) {
  return {fixed(100 * fraction, 1), 100 * fraction};
}

Table best_table(const ConfigurationSearch& search, const std::vector<std::string>& names) {
  const bool mib = memory_in_mib(search);
  const bool bubble = std::any_of(search.best.begin(), search.best.end(),
                                  [&](std::size_t row) { return search.rows[row].step->has_bubble; });
  const bool measured =
      std::any_of(search.measured.begin(), search.measured.end(), [](const auto& run) { return run.has_value(); });
  const bool bars = search.rows[search.best.front()].step->error_bar.has_value();
  Table table{
      .name = "plan", .columns = {{"rank", "rank"}, {"verdict", "verdict", "", "", Align::left}}, .key_columns = 2};
  for (const std::string& name : names) table.columns.push_back(setting_column(name));
  table.columns.push_back({"step_time_ms", "step time", "ms"});
  if (bars) table.columns.push_back(half_width_column());
  table.columns.push_back(bubble ? TableColumn{"bubble_percent", "bubble", "%"}
                                 : TableColumn{"idle_percent", "idle", "%"});
  table.columns.push_back({"exposed_communication_percent", "exposed communication", "%"});
  table.columns.push_back({mib ? "peak_memory_mib" : "peak_memory_gib", "peak memory", mib ? "MiB" : "GiB"});
  if (measured) table.columns.push_back({"measured_ms", "measured", "ms"});
  table.columns.push_back({"behind_by", "behind by", "", "", Align::left});
  for (std::size_t i = 0; i < search.best.size(); ++i) {
    const SearchRow& row = search.rows[search.best[i]];
    const SearchedStep& step = *row.step;
    std::vector<TableCell> cells = {{std::to_string(i + 1), static_cast<double>(i + 1)}, search.verdict(i)};
    for (const std::string& name : names) cells.push_back(setting_cell(row, name));
    cells.emplace_back(fixed(step.step_time_ms, 3), step.step_time_ms);
    if (bars) cells.push_back(half_width_cell(step.error_bar));
    if (bubble && !step.has_bubble) cells.emplace_back("-");
    if (bubble && step.has_bubble) cells.push_back(percent_cell(step.bubble_fraction));
    if (!bubble) cells.push_back(percent_cell(step.idle_fraction));
    cells.push_back(percent_cell(step.exposed_communication_fraction));
    cells.emplace_back(mib ? pdl::mib(step.peak_memory_bytes) : gib(step.peak_memory_bytes),
                       static_cast<double>(step.peak_memory_bytes) / (mib ? 1 << 20 : 1 << 30));
    if (measured) {
      const auto& run = search.measured[i];
      cells.push_back(run ? TableCell(fixed(run->step_time_ms, 3), run->step_time_ms) : TableCell("-"));
    }
    cells.emplace_back(row.behind == Drawback::none ? "-" : to_string(row.behind));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// Rows with that word; nullptr name: all rows.
struct Counted {
  std::size_t rows = 0;
  std::array<std::size_t, kLosses> by_loss{};
  std::optional<double> best_ms;
};

Counted counted(const ConfigurationSearch& search, const std::string& name, const std::string& value) {
  Counted counts;
  for (const SearchRow& row : search.rows) {
    if (!name.empty() && word_of(row, name) != value) continue;
    ++counts.rows;
    ++counts.by_loss[static_cast<std::size_t>(row.loss)];
    const bool fits = row.step && row.loss != Drawback::memory;
    if (fits && (!counts.best_ms || row.step->step_time_ms < *counts.best_ms)) counts.best_ms = row.step->step_time_ms;
  }
  return counts;
}

constexpr std::array kLossColumns = {Drawback::memory,        Drawback::compute, Drawback::bubble,
                                     Drawback::communication, Drawback::host,    Drawback::refused};

std::string meaning_of(Drawback loss) {
  switch (loss) {
    case Drawback::none: return "";
    case Drawback::memory: return "a GPU needs more than it may";
    case Drawback::compute: return "the computation of the GPUs has grown most against the best, or alone takes longer";
    case Drawback::bubble: return "the waiting of the GPUs for each other has, or fill and drain alone are too long";
    case Drawback::communication: return "the exposed part of transfers and collectives has";
    case Drawback::host: return "bound by the host that issues the work";
    case Drawback::refused: return "no such plan, or no price for it";
  }
  return "";
}

Table lost_table(const ConfigurationSearch& search, const std::vector<std::string>& names) {
  Table table{.name = "lost",
              .columns = {{"dimension", "dimension", "", "", Align::left},
                          {"value", "value", "", "", Align::left},
                          {"configurations", "number"},
                          {"best_step_time_ms", "best step time", "ms", "of those that were predicted and fit"},
                          {"among_best", "listed"}},
              .key_columns = 2};
  std::vector<Drawback> losses(kLossColumns.begin(), kLossColumns.end());
  std::erase_if(losses, [&](Drawback loss) { return search.count(loss) == 0; });
  for (const Drawback loss : losses)
    table.columns.push_back({std::string("lost_by_") + to_string(loss), to_string(loss), "", meaning_of(loss)});
  const auto add = [&](const std::string& name, const std::string& value) {
    const Counted counts = counted(search, name, value);
    const auto whole = [](std::size_t number) {
      return TableCell(std::to_string(number), static_cast<double>(number));
    };
    std::vector<TableCell> cells = {name.empty() ? "all" : name, name.empty() ? "-" : value, whole(counts.rows)};
    cells.push_back(counts.best_ms ? TableCell(fixed(*counts.best_ms, 3), *counts.best_ms) : TableCell("-"));
    cells.push_back(whole(counts.by_loss[static_cast<std::size_t>(Drawback::none)]));
    for (const Drawback loss : losses) cells.push_back(whole(counts.by_loss[static_cast<std::size_t>(loss)]));
    table.rows.push_back(std::move(cells));
  };
  add("", "");
  for (const std::string& name : names) {
    for (const std::string& value : values_of(search, name)) add(name, value);
  }
  return table;
}

/// Reasons with how many configurations have each, the most frequent first.
Table refused_table(const ConfigurationSearch& search) {
  std::vector<std::pair<std::string, std::size_t>> reasons;
  for (const SearchRow& row : search.rows) {
    if (row.loss != Drawback::refused) continue;
    const auto found =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& reason) { return reason.first == row.refusal; });
    found == reasons.end() ? void(reasons.emplace_back(row.refusal, 1)) : void(++found->second);
  }
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table{.name = "refused",
              .columns = {{"configurations", "configurations"}, {"reason", "reason", "", "", Align::left, true}},
              .most_terminal_rows = kRefusalsShown};
  for (const auto& [reason, count] : reasons)
    table.rows.push_back({{std::to_string(count), static_cast<double>(count)}, reason});
  return table;
}

/// The best one as the programs take it. What a search for an order finds goes from one to the other by a file, the
/// layers of stages as they were found.
std::string commands_text(const ConfigurationSearch& search, const std::string& flags) {
  const SearchRow& first = search.rows[search.best.front()];
  const SettingValue* schedule = find_setting(first.words, "schedule");
  const bool searched = schedule && schedule->value == kAutoSchedule;
  std::string text = command_line("pdl-sim", first.words) + flags + (searched ? " --schedule-csv order.csv" : "");
  if (search.synthetic) return text + "\n";
  std::vector<SettingValue> words = first.words;
  for (SettingValue& word : words) {
    if (searched && word.name == "schedule") word.value = "order.csv";
    if (word.name == "split" && !first.found_split.empty()) word.value = first.found_split;
  }
  return text + "\n" + command_line("pdl-run", words) + (search.on_cpu ? " --device cpu" : "") + "\n";
}

std::string first_text(const ConfigurationSearch& search, const std::vector<std::string>& names) {
  const SearchedStep& first = *search.rows[search.best.front()].step;
  std::string text = "Fastest: " + label(search.rows[search.best.front()], names) + ", " +
                     fixed(first.step_time_ms, 3) + " ms a step, " + binary_bytes(first.peak_memory_bytes) +
                     " of peak memory";
  const std::vector<std::size_t> tied = search.tied_with_first();
  if (tied.size() + 1 == search.best.size() && !tied.empty()) {
    text +=
        "; a tie with all that are listed, which its error bar does not tell from it, and with further ones perhaps";
  } else if (!tied.empty()) {
    text += "; a tie with " + std::to_string(tied.size()) + " of the others, which its error bar does not tell from it";
  }
  return text + ".";
}

std::string measured_text(const ConfigurationSearch& search) {
  std::map<std::string, std::vector<std::string>> ranks;  // folder -> ranks
  for (std::size_t i = 0; i < search.measured.size(); ++i) {
    if (search.measured[i]) ranks[search.measured[i]->folder].push_back(std::to_string(i + 1));
  }
  if (ranks.empty())
    return search.synthetic ? "" : "None of them has been measured on GPUs of this kind (data/*/runs).";
  std::string text = "Measured: ";
  for (const auto& [folder, of_folder] : ranks)
    text += (text.ends_with(": ") ? "" : "; ") + std::string("rank ") + joined(of_folder) + " (" + folder + ")";
  return text + ". The others have not been, on GPUs of this kind.";
}

/// The least part of a cost whose removal makes the second win, in a straight line to its step without that cost.
std::optional<double> enough(double second_ms, double without_ms, double first_ms) {
  if (without_ms >= first_ms || without_ms >= second_ms) return std::nullopt;
  return std::clamp((second_ms - first_ms) / (second_ms - without_ms), 0.0, 1.0);
}

Table changes_table(const BestTwo& two) {
  const double first_ms = two.first.run->step_time.median_ms, second_ms = two.second.run->step_time.median_ms;
  Table table{.name = "changes",
              .columns = {{"change", "change to the second", "", "", Align::left},
                          {"step_time_ms", "step time", "ms"},
                          {"wins", "wins", "", "", Align::left},
                          {"enough_percent", "enough", "%",
                           "so much less of the cost would make the second as fast as the first, in a straight line "
                           "between its step and its step without the cost"}}};
  for (const StepWithout& without : two.second.explanation.without) {
    if (without.what == "ideal") continue;
    const auto part = enough(second_ms, without.step_time_ms, first_ms);
    table.rows.push_back({without.words,
                          {fixed(without.step_time_ms, 3), without.step_time_ms},
                          part ? "yes" : "no",
                          part ? TableCell(fixed(100 * *part, 1), 100 * *part) : TableCell("-")});
  }
  return table;
}

std::string second_text(const ConfigurationSearch& search, const std::vector<std::string>& names) {
  const BestTwo& two = *search.best_two;
  const double first_ms = two.first.run->step_time.median_ms, second_ms = two.second.run->step_time.median_ms;
  std::string text = "The second, " + label(search.rows[search.best[1]], names) + ", is " +
                     fixed(second_ms - first_ms, 3) + " ms behind (" + fixed(100 * (second_ms / first_ms - 1), 2) +
                     " %)";
  const StepWithout* least = nullptr;
  double least_part = 2;
  for (const StepWithout& without : two.second.explanation.without) {
    const auto part = without.what == "ideal" ? std::nullopt : enough(second_ms, without.step_time_ms, first_ms);
    if (!part || *part >= least_part) continue;
    least = &without;
    least_part = *part;
  }
  if (second_ms == first_ms) return text + ": as fast as the first, which comes before it in the search.";
  if (!least) return text + ". None of its costs alone, taken away, would make it win.";
  return text + ". It would win with about " + fixed(100 * least_part, 0) + " % less of one cost (" + least->words +
         ": " + fixed(least->step_time_ms, 3) + " ms), the first staying as it is.";
}

std::string more_memory_text(const ConfigurationSearch& search, const std::vector<std::string>& names) {
  if (!search.faster_with_more_memory) return "";
  const SearchRow& row = search.rows[*search.faster_with_more_memory];
  return "With " + binary_bytes(*row.needed_memory_bytes) + " a GPU, " + label(row, names) +
         " would win: " + fixed(row.step->step_time_ms, 3) +
         " ms, the least of those that need more memory than allowed.";
}

void add_best_two(const ConfigurationSearch& search, Document& document) {
  if (!search.best_two) return;
  const BestTwo& two = *search.best_two;
  document.add(Paragraph{second_text(search, differing_in_best(search)) + " Below, A is the first and B the second."});
  document.add(compare_explanations(*two.first.run, two.first.explanation, *two.second.run, two.second.explanation));
  if (Table changes = changes_table(two); !changes.rows.empty()) document.add(std::move(changes));
}

/// A bar a configuration.
ChartFigure best_figure(const ConfigurationSearch& search, const std::vector<std::string>& names) {
  ChartFigure figure{.title = "Step time of the best",
                     .kind = ChartKind::bar,
                     .x_title = "configuration",
                     .y_title = "step time (ms)"};
  ChartSeries series{.name = "step time"};
  for (const std::size_t row : search.best) {
    series.x.push_back(static_cast<double>(figure.x_labels.size()));
    series.y.push_back(search.rows[row].step->step_time_ms);
    figure.x_labels.push_back(label(search.rows[row], names));
  }
  figure.series.push_back(std::move(series));
  return figure;
}

void add_best(const ConfigurationSearch& search, const std::string& flags, Document& document) {
  const std::vector<std::string> names = differing_in_best(search);
  document.add(Heading{"The best"});
  document.add(best_table(search, names));
  document.add(Paragraph{first_text(search, varying(search))});
  if (search.rows[search.best.front()].step->steps_overlap) {
    document.add(Paragraph{
        "Its steps overlap, without a barrier at the optimizer: its step time is the maximum over the GPUs of the time "
        "from a GPU's first task to its last (--overlap-steps 0: all with the barrier)."});
  }
  if (const std::string text = measured_text(search); !text.empty()) document.add(Paragraph{text});
  document.add(best_figure(search, names));
  document.add(Preformatted{commands_text(search, flags)});
}

}  // namespace

Document search_document(const ConfigurationSearch& search, const std::string& flags) {
  Document document{.title = "plan"};
  const std::vector<std::string> names = varying(search);
  if (!search.source.empty()) document.add(Paragraph{search.source, 2});
  if (const std::string held = held_text(search); !held.empty()) document.add(Paragraph{"all: " + held, 2});
  document.add(Paragraph{what_is_trained_text(search) + " " + limit_text(search)});
  if (!names.empty()) document.add(searched_table(search, names));
  document.add(Paragraph{counts_text(search)});
  if (!search.best.empty()) add_best(search, flags, document);
  document.add(Heading{"Why the others lost"});
  document.add(lost_table(search, names));
  if (search.count(Drawback::refused) > 0) document.add(refused_table(search));
  if (!search.best.empty()) document.add(Heading{"What would have to change"});
  if (const std::string text = more_memory_text(search, names); !text.empty()) document.add(Paragraph{text});
  add_best_two(search, document);
  WarningList warnings("rank");
  for (std::size_t i = 0; i < search.best.size(); ++i) {
    const SearchedStep& step = *search.rows[search.best[i]].step;
    warnings.add(std::to_string(i + 1), step.warnings, step.warning_shares);
  }
  warnings.add_to(document);
  return document;
}

}  // namespace pdl
