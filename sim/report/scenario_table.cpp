#include "sim/report/scenario_table.hpp"

#include <algorithm>
#include <array>

#include "sim/report/answers.hpp"
#include "sim/report/common_settings.hpp"
#include "sim/report/number_text.hpp"
#include "sim/report/terminal.hpp"
#include "sim/report/text_table.hpp"
#include "sim/report/warnings.hpp"

namespace pdl {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

const GpuMetrics& gpu_of(const CellPlace& cell) {
  return cell.run().metrics.gpus[cell.gpu];
}

/// "0-9 | 10-19": layers of GPU 0, of GPU 1, ...; "0-1, 6-7 | 2-3, 4-5" where a GPU holds several stages.
std::string layer_map(const CellPlace& cell) {
  std::vector<std::string> ranges(static_cast<std::size_t>(cell.scenario_row().spec.gpus));
  for (const Stage& stage : cell.run().result.stages) {
    const std::int32_t last = stage.first_layer + stage.layer_count - 1;
    std::string& of_gpu = ranges.at(static_cast<std::size_t>(stage.worker));
    of_gpu += (of_gpu.empty() ? "" : ", ") + std::to_string(stage.first_layer) +
              (last > stage.first_layer ? "-" + std::to_string(last) : "");
  }
  std::string text;
  for (const std::string& of_gpu : ranges) text += (text.empty() ? "" : " | ") + of_gpu;
  return text;
}

std::string operations_text(const CellPlace& cell) {
  std::string text;
  for (const std::string& operation : gpu_of(cell).ops) text += (text.empty() ? "" : " ") + operation;
  constexpr std::size_t kMost = 48;
  return text.size() <= kMost ? text : text.substr(0, text.rfind(' ', kMost - 4)) + " ...";
}

std::string idle_text(const CellPlace& cell) {
  const GpuMetrics& gpu = gpu_of(cell);
  const auto ms = [](std::int64_t ns) { return fixed(static_cast<double>(ns) / 1e6, 1); };
  return ms(gpu.idle_before_ns) + " + " + ms(gpu.idle_between_ns) + " + " + ms(gpu.idle_after_ns);
}

std::optional<double> step_time(const CellPlace& cell) {
  return cell.run().result.step_time.median_ms;
}

std::optional<double> speedup(const CellPlace& cell) {
  const ScenarioRow& base = cell.table.rows[baseline_row(cell.table, cell.row)];
  if (cell.measured && !base.measured) return std::nullopt;
  const EvaluatedRun& run = cell.measured ? *base.measured : base.predicted;
  return run.result.step_time.median_ms / cell.run().result.step_time.median_ms;
}

std::optional<double> peak_memory(const CellPlace& cell) {
  const auto& bytes = cell.run().result.peak_memory_bytes;
  if (bytes.empty()) return std::nullopt;
  return static_cast<double>(bytes[cell.gpu]) / kGib;
}

std::optional<double> fullest_gpu(const CellPlace& cell) {
  const auto& bytes = cell.run().result.peak_memory_bytes;
  if (bytes.empty()) return std::nullopt;
  return static_cast<double>(*std::max_element(bytes.begin(), bytes.end())) / kGib;
}

std::string live_activations(const CellPlace& cell) {
  return std::to_string(most_live(cell.scenario_row().predicted.result));
}

std::optional<double> share_of_step(const CellPlace& cell, std::int64_t ns) {
  return 100 * static_cast<double>(ns) / static_cast<double>(cell.run().metrics.step_ns);
}

const std::array kColumns = {
    ScenarioColumn{"gpus", "GPUs", "", "", false,
                   [](const CellPlace& c) { return std::to_string(c.scenario_row().spec.gpus); }},
    ScenarioColumn{"depth", "depth", "layers", "", false,
                   [](const CellPlace& c) { return std::to_string(c.scenario_row().spec.depth); }},
    ScenarioColumn{"dim", "dim", "", "dim: width of every layer", false,
                   [](const CellPlace& c) { return std::to_string(c.scenario_row().spec.dim); }},
    ScenarioColumn{"batch", "batch", "samples", "", false,
                   [](const CellPlace& c) { return std::to_string(c.scenario_row().spec.batch); }},
    ScenarioColumn{"microbatches", "micro-", "batches", "", false,
                   [](const CellPlace& c) { return std::to_string(c.scenario_row().spec.microbatches); }},
    ScenarioColumn{"strategy", "strategy", "", "", false,
                   [](const CellPlace& c) { return to_string(c.scenario_row().spec.strategy); }},
    ScenarioColumn{"schedule", "schedule", "", "", false,
                   [](const CellPlace& c) { return c.scenario_row().spec.schedule; }},
    ScenarioColumn{"workers", "workers", "", "workers: a thread or process for each GPU, or one thread for all", false,
                   [](const CellPlace& c) { return to_string(c.scenario_row().spec.workers); }},
    ScenarioColumn{"parameters", "parameters", "", "", false,
                   [](const CellPlace& c) { return grouped(c.run().metrics.parameters); }},
    ScenarioColumn{"layers", "layers of", "GPU 0 | 1 | ...", "", false, layer_map},
    ScenarioColumn{"transfers_forward", "transfers", "forward",
                   "transfers forward: moves of activations from GPU to GPU in the "
                   "forward pass of one step",
                   false, [](const CellPlace& c) { return grouped(forward_transfers(c.run().result).count); }},
    ScenarioColumn{"transfer_bytes_forward", "bytes", "forward", "bytes forward: what these moves carry together",
                   false, [](const CellPlace& c) { return decimal_bytes(forward_transfers(c.run().result).bytes); }},
    ScenarioColumn{"transfers", "transfers", "step", "transfers step: forward and backward", false,
                   [](const CellPlace& c) { return grouped(c.run().metrics.transfer_count); }},
    ScenarioColumn{"step_time_ms", "step time", "ms", "step time: from before the forward pass to after the optimizer",
                   false, nullptr, step_time, 2, true},
    ScenarioColumn{"speedup", "speed-up", "",
                   "speed-up: step time of the first row with this model and batch / that of this row", false, nullptr,
                   speedup, 2},
    ScenarioColumn{"throughput", "throughput", "samples/s", "", false, nullptr,
                   [](const CellPlace& c) -> std::optional<double> { return c.run().metrics.throughput_samples_per_s; },
                   0},
    ScenarioColumn{
        "bubble", "bubble", "%", "bubble: share of the time of all GPUs that is not forward or backward work", false,
        nullptr, [](const CellPlace& c) -> std::optional<double> { return 100 * c.run().metrics.bubble_fraction; }, 1},
    ScenarioColumn{"fullest_gpu_gib", "fullest GPU", "GiB",
                   "fullest GPU: the most that is allocated at once on the GPU that has most", false, nullptr,
                   fullest_gpu, 2},
    ScenarioColumn{"live_activations", "live", "most",
                   "live: activations (of a stage and a micro-batch) kept at once, on the GPU that keeps most", false,
                   live_activations},
    ScenarioColumn{"busy", "busy", "%", "busy: share of the step in which the GPU computes", true, nullptr,
                   [](const CellPlace& c) { return share_of_step(c, gpu_of(c).busy_ns); }, 1},
    ScenarioColumn{"idle", "idle, when", "ms",
                   "idle, when: before the first task of the GPU + between its tasks + after its last "
                   "task, until the end of the step",
                   true, nullptr, nullptr, 0, false, idle_text},
    ScenarioColumn{"peak_memory_gib", "peak memory", "GiB", "peak memory: the most that is allocated at once", true,
                   nullptr, peak_memory, 2, true},
    ScenarioColumn{"ops", "order of execution", "",
                   "order of execution: F2 is the forward of micro-batch 2, B2 its backward", true, operations_text},
};

bool is_left(const ScenarioColumn& column) {
  return column.name == "layers" || column.name == "ops" || column.name == "schedule" || column.name == "strategy" ||
         column.name == "workers";
}

void add_heads(const ScenarioColumn& column, bool with_measured, TextTable& table) {
  if (column.text) {
    table.columns.push_back({column.title, column.unit, is_left(column) ? Align::left : Align::right});
    return;
  }
  table.columns.push_back({column.title, column.unit.empty() ? "predicted" : "predicted " + column.unit});
  if (!with_measured) return;
  table.columns.push_back({column.title, column.unit.empty() ? "measured" : "measured " + column.unit});
  if (column.with_difference) table.columns.push_back({"difference", "%"});
}

void add_cells(const ScenarioColumn& column, CellPlace cell, bool with_measured, std::vector<std::string>& cells) {
  cell.measured = false;
  if (column.text) {
    cells.push_back(column.text(cell));
    return;
  }
  if (column.text_of_run) {
    cells.push_back(column.text_of_run(cell));
    cell.measured = true;
    if (with_measured) cells.push_back(cell.scenario_row().measured ? column.text_of_run(cell) : "-");
    return;
  }
  const auto shown = [&](const std::optional<double>& value) { return value ? fixed(*value, column.digits) : "-"; };
  const std::optional<double> predicted = column.number(cell);
  cells.push_back(shown(predicted));
  if (!with_measured) return;
  std::optional<double> measured;
  if (cell.scenario_row().measured) {
    cell.measured = true;
    measured = column.number(cell);
    cells.push_back(shown(measured));
  } else {
    cells.push_back(column.name == "step_time_ms" ? "predicted only" : "-");
  }
  if (!column.with_difference) return;
  const bool known = predicted && measured && *measured > 0;
  cells.push_back(known ? signed_fixed(100 * (*predicted - *measured) / *measured, 1) : "-");
}

std::vector<const ScenarioColumn*> chosen(const Scenario& scenario, bool per_gpu) {
  std::vector<const ScenarioColumn*> columns;
  for (const std::string& name : scenario.columns) {
    const auto found =
        std::find_if(kColumns.begin(), kColumns.end(), [&](const auto& column) { return column.name == name; });
    if (found->per_gpu == per_gpu) columns.push_back(&*found);
  }
  return columns;
}

std::string configuration_table(const ScenarioTable& table) {
  TextTable text{{{"row", ""}}, {}};
  const auto columns = chosen(table.scenario, false);
  for (const ScenarioColumn* column : columns) add_heads(*column, table.has_measurements(), text);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    std::vector<std::string> cells = {std::to_string(r + 1)};
    for (const ScenarioColumn* column : columns) add_cells(*column, {table, r, false}, table.has_measurements(), cells);
    text.rows.push_back(std::move(cells));
  }
  return to_text(text);
}

std::string gpu_table(const ScenarioTable& table) {
  const auto columns = chosen(table.scenario, true);
  if (columns.empty()) return "";
  TextTable text{{{"row", ""}, {"GPU", ""}}, {}};
  for (const ScenarioColumn* column : columns) add_heads(*column, table.has_measurements(), text);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    for (std::size_t g = 0; g < table.rows[r].predicted.metrics.gpus.size(); ++g) {
      std::vector<std::string> cells = {std::to_string(r + 1), std::to_string(g)};
      for (const ScenarioColumn* column : columns)
        add_cells(*column, {table, r, false, g}, table.has_measurements(), cells);
      text.rows.push_back(std::move(cells));
    }
  }
  return "\n" + to_text(text);
}

std::string legend(const ScenarioTable& table, std::size_t width) {
  std::string text;
  for (const bool per_gpu : {false, true}) {
    for (const ScenarioColumn* column : chosen(table.scenario, per_gpu)) {
      if (!column->meaning.empty()) text += wrap("  " + column->meaning, width, 4);
    }
  }
  if (table.has_measurements()) text += wrap("  difference: (predicted - measured) / measured", width, 4);
  return text.empty() ? "" : "\n" + text;
}

std::string common_settings(const ScenarioTable& table, std::size_t width) {
  std::vector<std::vector<SettingValue>> rows;
  for (const ScenarioRow& row : table.rows) rows.push_back(to_settings(row.spec));
  return common_settings_text(rows, width);
}

std::string warnings_text(const ScenarioTable& table, std::size_t width) {
  WarningList warnings;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const ScenarioRow& row = table.rows[r];
    warnings.add("row " + std::to_string(r + 1), row.predicted.result.warnings);
    if (row.measured) warnings.add("row " + std::to_string(r + 1) + ", measured", row.measured->result.warnings);
  }
  const std::string text = warnings.text(width);
  return text.empty() ? "" : "\n" + text;
}

std::string answer_text(const ScenarioTable& table, std::size_t width) {
  if (table.scenario.answer.empty()) return "";
  std::string text = "\n";
  for (const std::string& sentence : find_answer(table.scenario.answer)->sentences(table))
    text += wrap(sentence, width);
  return text;
}

}  // namespace

bool ScenarioTable::has_measurements() const {
  return std::any_of(rows.begin(), rows.end(), [](const ScenarioRow& row) { return row.measured.has_value(); });
}

std::span<const ScenarioColumn> scenario_columns() {
  return kColumns;
}

std::int32_t most_live(const RunResult& run) {
  std::int32_t most = 0;
  for (const LiveActivations& of_gpu : run.live) most = std::max(most, of_gpu.count);
  return most;
}

std::size_t baseline_row(const ScenarioTable& table, std::size_t row) {
  const RunSpec& spec = table.rows[row].spec;
  const auto same = [&](const ScenarioRow& other) {
    return other.spec.model_name == spec.model_name && other.spec.depth == spec.depth && other.spec.dim == spec.dim &&
           other.spec.batch == spec.batch;
  };
  return static_cast<std::size_t>(std::find_if(table.rows.begin(), table.rows.end(), same) - table.rows.begin());
}

ForwardTransfers forward_transfers(const RunResult& run) {
  ForwardTransfers transfers;
  std::size_t next = 0;
  for (const Span& span : run.timeline.spans) {
    if (span.kind != TaskKind::send_forward && span.kind != TaskKind::send_backward) continue;
    const std::int64_t bytes = run.transfer_bytes.at(next++);
    if (span.kind != TaskKind::send_forward) continue;
    ++transfers.count;
    transfers.bytes += bytes;
  }
  return transfers;
}

std::string scenario_text(const ScenarioTable& table, std::size_t width) {
  const Scenario& scenario = table.scenario;
  std::string out = scenario.source.empty() ? scenario.title + "\n" : scenario.source + ": " + scenario.title + "\n";
  if (!scenario.question.empty()) out += wrap("question: " + scenario.question, width, 2);
  out += wrap(describe_source(table.rows.front().predicted.result), width, 2) + common_settings(table, width);
  if (!table.has_measurements())
    out += "no measured runs of these configurations beside this profile: predicted only\n";
  return out + "\n" + configuration_table(table) + gpu_table(table) + legend(table, width) +
         warnings_text(table, width) + answer_text(table, width);
}

}  // namespace pdl
