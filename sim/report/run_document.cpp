#include "sim/report/run_document.hpp"

#include <algorithm>
#include <cmath>

#include "sim/io/number_text.hpp"
#include "sim/report/explain_document.hpp"
#include "sim/report/layer_times_document.hpp"
#include "sim/report/warnings.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {
namespace {

TableCell whole_cell(std::int64_t value) {
  return {std::to_string(value), static_cast<double>(value)};
}

TableCell milliseconds_cell(std::int64_t ns) {
  return {milliseconds(ns), static_cast<double>(ns) / 1e6};
}

Table table_of_gpus(const RunResult& run, const RunMetrics& metrics, std::size_t most_rows) {
  const bool bubble = has_bubble(run.spec), mib = memory_in_mib(run);
  Table table{.name = "gpus",
              .columns = {{"gpu", "GPU"}, {"layers", "layers"}, {"layer_range", "range", "", "", Align::left}},
              .most_terminal_rows = most_rows};
  for (TableColumn& column : time_columns(bubble)) table.columns.push_back(std::move(column));
  const std::vector<std::int64_t> of_processes = measured_facts(run).process_peak_memory_bytes;
  const bool process_a_gpu = of_processes.size() == metrics.gpus.size() && run.peak_memory_bytes.empty();
  table.columns.push_back(process_a_gpu ? TableColumn{"process_peak_memory_bytes", "peak memory of the process", "MiB",
                                                      "resident in the worker's process, LibTorch itself included"}
                                        : memory_column(mib));
  const std::vector<std::string> ranges = layer_ranges_of_gpus(run);
  for (std::size_t g = 0; g < metrics.gpus.size(); ++g) {
    std::vector<TableCell> row = {whole_cell(static_cast<std::int64_t>(g)), whole_cell(metrics.gpus[g].layers),
                                  ranges[g]};
    for (TableCell& cell : time_cells(metrics.gpus[g], bubble)) row.push_back(std::move(cell));
    row.push_back(process_a_gpu ? TableCell{pdl::mib(of_processes[g]), static_cast<double>(of_processes[g])}
                                : memory_cell(run, g, mib));
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// A measured table is of one step, which was recorded; the step time is the median of others, which were not.
std::string recorded_step_text(const RunResult& run) {
  constexpr double kTellable = 0.005;
  const double recorded_ms = static_cast<double>(run.timeline.step_ns) / 1e6;
  if (!run.measured || std::abs(recorded_ms - run.step_time.median_ms) <= kTellable * run.step_time.median_ms)
    return "";
  return "The table and the percentages are of one recorded step of " + fixed(recorded_ms, 3) +
         " ms; the step time is the median of the steps that were not recorded.";
}

std::string text_of_step_time(const RunResult& run) {
  const auto half_width = half_width_ms(run);
  std::string text = "step time: " + fixed(run.step_time.median_ms, 3) + " ms" +
                     (half_width ? " +- " + fixed(*half_width, 3) + " ms" : "") + ", " + kind_of_run(run);
  if (half_width) text += " (90 % of measured steps lie within)";
  if (!run.step_time.n) return text;
  text += " (median of " + std::to_string(*run.step_time.n) + " steps";
  if (run.step_time.p25_ms && run.step_time.p75_ms) {
    text += ", quartiles " + fixed(*run.step_time.p25_ms, 3) + " and " + fixed(*run.step_time.p75_ms, 3) + " ms";
  }
  return text + ")";
}

/// "model: 8.44 TFLOP a step, MFU 41.3 % of 989.4 TFLOP/s (amp-bf16, dense) on each GPU"
std::string text_of_model(const RunResult& run, const RunMetrics& metrics) {
  const std::string flops = "model: " + decimal_flops(metrics.model_flops) + " a step";
  if (!metrics.mfu) return flops;
  return flops + ", MFU " + percent(*metrics.mfu) + " of " + fixed(*metrics.peak_flops_per_s / 1e12, 1) + " TFLOP/s (" +
         to_string(run.spec.dtype) + ", dense) on each GPU";
}

std::string text_of_noise(const StepDistribution& drawn) {
  return "noise: of " + grouped(drawn.draws) + (drawn.draws == 1 ? " drawn step" : " drawn steps") +
         " 10 % take less than " + fixed(drawn.p10_ms, 3) + " ms, 50 % less than " + fixed(drawn.p50_ms, 3) +
         " ms, 90 % less than " + fixed(drawn.p90_ms, 3) + " ms (seed " + std::to_string(drawn.seed) + ")";
}

/// "linear_relu 3584x3584, 1100 rows, backward fp32 (38 % of the work, +- 5.0 %); ..." of those that no probe measured,
/// of the sources that carry the bar.
std::string unprobed_text(const ErrorBar& bar) {
  constexpr std::size_t kMostNamed = 3;
  std::vector<std::string> named;
  for (const ErrorCarrier& carrier : bar.carriers) {
    if (!carrier.probed && named.size() < kMostNamed)
      named.push_back(carrier.what + " (" + percent(carrier.share) + " of the work, +- " +
                      fixed(carrier.half_width_percent, 1) + " %)");
  }
  std::string text;
  for (const std::string& name : named) text += (text.empty() ? ": " : "; ") + name;
  return text;
}

/// Where the prediction does not rest on probes alone: what it rests on, and what would change that. Of little work it
/// would change hardly anything.
void add_unprobed(Document& document, const RunResult& run) {
  constexpr double kLittleWork = 0.01;
  if (!half_width_ms(run) || run.error_bar->probed() || run.error_bar->unprobed_share < kLittleWork) return;
  document.add(Paragraph{"not probed: " + percent(run.error_bar->unprobed_share) +
                             " of the work of the GPU with the most of it" + unprobed_text(*run.error_bar) +
                             (run.probe_command.empty() ? "." : ". On the machine of the profile, this measures it:"),
                         2});
  if (!run.probe_command.empty()) document.add(Preformatted{run.probe_command + "\n"});
}

void add_totals(Document& document, const RunResult& run, const RunMetrics& metrics, const std::string& other_program) {
  const auto add = [&](const std::string& text) { document.add(Paragraph{text, 2}); };
  add(text_of_step_time(run));
  if (!other_program.empty()) add(other_program);
  if (run.noise) add(text_of_noise(*run.noise));
  add("throughput: " + fixed(metrics.throughput_samples_per_s, 1) + " samples/s" +
      (metrics.tokens_per_s ? ", " + grouped(std::llround(*metrics.tokens_per_s)) + " tokens/s" : ""));
  if (metrics.tokens_per_s || metrics.mfu) add(text_of_model(run, metrics));
  add(has_bubble(run.spec)
          ? "bubble: " + percent(metrics.bubble_fraction) + " of the time of all GPUs is not forward or backward work"
          : "idle: " + percent(metrics.idle_fraction) +
                " of the time of all GPUs is neither computation nor communication");
  add("transfers: " + (metrics.transfer_count == 0 ? "none"
                                                   : grouped(metrics.transfer_count) + " between GPUs, " +
                                                         decimal_bytes(metrics.transfer_bytes) + " in total"));
  if (metrics.collective_count > 0) {
    add("collectives: " + grouped(metrics.collective_count) + ", " + decimal_bytes(metrics.collective_bytes) +
        " in total");
  }
  const std::size_t layers = run.spec.model.layers.size();
  add("parameters: " + grouped(metrics.parameters) + " in " + std::to_string(layers) +
      (layers == 1 ? " layer" : " layers"));
  if (const std::vector<std::int64_t> processes = measured_facts(run).process_peak_memory_bytes; !processes.empty()) {
    const std::string largest = binary_bytes(*std::max_element(processes.begin(), processes.end()));
    add("peak memory: " + largest + " resident in the " +
        (processes.size() == 1 ? "process with all workers"
                               : "largest of the " + std::to_string(processes.size()) + " processes") +
        ", LibTorch itself included");
  }
  if (const std::string recorded = recorded_step_text(run); !recorded.empty()) add(recorded);
  if (is_on_cpu(run)) add("Steps on the CPU are host-bound: the processor that issues the work also computes it.");
  if (!steps_overlap(run.spec)) return;
  add("Steps overlap, without a barrier at the optimizer: the step time is the maximum over the GPUs of the time from "
      "a "
      "GPU's first task to its last, and in the chart each GPU's step begins with its first task (with the barrier: "
      "--overlap-steps 0).");
}

}  // namespace

std::vector<TableColumn> time_columns(bool bubble) {
  return {
      {"busy_ms", "busy", "ms", "at a compute task, from its first kernel to its last, waits for a slow host included"},
      {"communication_ms", "communication", "ms", "a transfer or collective runs, and no compute task"},
      {"idle_ms", "idle", "ms", "neither; busy, communication and idle time add up to the step"},
      bubble ? TableColumn{"bubble_percent", "bubble", "%", "share of the step without forward or backward work"}
             : TableColumn{"idle_percent", "idle share", "%", "idle time as a share of the step"}};
}

std::vector<TableCell> time_cells(const GpuMetrics& gpu, bool bubble) {
  const double lost_percent = 100 * lost_fraction(gpu, bubble);
  return {milliseconds_cell(gpu.busy_ns),
          milliseconds_cell(gpu.comm_ns),
          milliseconds_cell(gpu.idle_ns),
          {fixed(lost_percent, 1), lost_percent}};
}

TableColumn memory_column(bool mib) {
  return {"peak_memory_bytes", "peak memory", mib ? "MiB" : "GiB"};
}

TableCell memory_cell(const RunResult& run, std::size_t gpu, bool in_mib) {
  if (gpu >= run.peak_memory_bytes.size()) return "-";
  const std::int64_t bytes = run.peak_memory_bytes[gpu];
  return {in_mib ? mib(bytes) : gib(bytes), static_cast<double>(bytes)};
}

TableColumn half_width_column() {
  return {"half_width_90_percent", "±", "%", "90 % of measured step times lie within so much of the predicted one"};
}

TableCell half_width_cell(const std::optional<ErrorBar>& bar) {
  return bar ? TableCell(fixed(bar->half_width_percent, 2), bar->half_width_percent) : TableCell("-");
}

bool memory_in_mib(const RunResult& run) {
  if (run.peak_memory_bytes.empty()) return false;
  return std::all_of(run.peak_memory_bytes.begin(), run.peak_memory_bytes.end(),
                     [](std::int64_t bytes) { return bytes < 1 << 30; });
}

const char* kind_of_run(const RunResult& run) {
  return run.measured ? "measured" : "predicted";
}

std::string lettered_name(std::size_t place, const RunResult& run) {
  return std::string(place == 0 ? "A, " : "B, ") + kind_of_run(run);
}

std::vector<std::string> names_of_runs(const std::vector<const RunResult*>& runs) {
  const bool alike = runs.size() == 2 && runs[0]->measured == runs[1]->measured;
  std::vector<std::string> names;
  for (std::size_t r = 0; r < runs.size(); ++r)
    names.push_back(alike ? lettered_name(r, *runs[r]) : kind_of_run(*runs[r]));
  return names;
}

std::string other_program_text(const OtherProgram& other) {
  const bool pytorch = other.program == ProgramOf::pytorch;
  if (!other.step_ms) {
    return pytorch ? "in PyTorch: the same kernels; Python takes more host time to launch them, which counts where a "
                     "step is host-bound and is not in this profile"
                   : "by pdl-run: the same kernels; the host time of Python is not in this profile";
  }
  if (!pytorch) return "by pdl-run: " + fixed(*other.step_ms, 3) + " ms (--program pdl)";
  return "in PyTorch" + (other.pytorch_class.empty() ? "" : ", Schedule" + other.pytorch_class) + ": " +
         fixed(*other.step_ms, 3) + " ms (--program pytorch" +
         (other.python_is_known ? ")" : "; host time of Python not included)");
}

Document run_document(const std::shared_ptr<const RunResult>& run, const RunStyle& style,
                      const Explanation* explanation) {
  const SpansOfGpus spans(run->timeline, static_cast<std::size_t>(run->spec.gpus));
  const RunMetrics metrics = compute_metrics(*run, spans, Operations::left_out);
  Document document{.title = describe(run->spec)};
  document.add(Paragraph{describe(run->spec), 2});
  document.add(Paragraph{describe_source(*run), 2});
  document.add(table_of_gpus(*run, metrics, style.gantt.most_rows));
  add_totals(document, *run, metrics, style.other_program);
  add_unprobed(document, *run);
  if (has_blocks(run->spec.model) || explanation) document.add(layer_times_document(*run));
  if (style.with_gantt) document.add(Preformatted{gantt(*run, spans, style.gantt), /*terminal_only=*/true});
  document.add(TimelineFigure{"Timeline of the step", {run}});
  document.add(MemoryFigures{run});
  if (explanation) document.add(explain_document(*run, *explanation));
  WarningList warnings;
  warnings.add("", run->warnings, run->warning_shares);
  warnings.add_to(document);
  return document;
}

}  // namespace pdl
