#include "sim/report/terminal.hpp"

#include <algorithm>
#include <cmath>

#include "sim/io/number_text.hpp"
#include "sim/report/text_table.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/metrics.hpp"

namespace pdl {
namespace {

/// Small models are shown in MiB.
bool memory_in_mib(const RunResult& run) {
  if (run.peak_memory_bytes.empty()) return false;
  return std::all_of(run.peak_memory_bytes.begin(), run.peak_memory_bytes.end(),
                     [](std::int64_t bytes) { return bytes < 1 << 30; });
}

std::string memory_text(const RunResult& run, std::size_t gpu) {
  if (run.peak_memory_bytes.empty()) return "-";
  return memory_in_mib(run) ? mib(run.peak_memory_bytes[gpu]) : gib(run.peak_memory_bytes[gpu]);
}

/// A measured table is of one step, which was recorded; the step time is the median of others, which were not.
std::string recorded_step_text(const RunResult& run) {
  constexpr double kTellable = 0.005;
  const double recorded_ms = static_cast<double>(run.timeline.step_ns) / 1e6;
  if (!run.measured || std::abs(recorded_ms - run.step_time.median_ms) <= kTellable * run.step_time.median_ms)
    return "";
  return "table, percentages: of one recorded step of " + fixed(recorded_ms, 3) +
         " ms; step time: of steps that were not recorded\n";
}

std::string gpu_table(const RunResult& run, const RunMetrics& metrics, std::size_t most_rows) {
  const bool bubble = has_bubble(run.spec);
  TextTable table;
  table.columns = {{"GPU", "", Align::right},
                   {"layers", "", Align::left},
                   {"busy", "ms"},
                   {"communication", "ms"},
                   {"idle", "ms"},
                   {bubble ? "bubble" : "idle share", "%"},
                   {"peak memory", memory_in_mib(run) ? "MiB" : "GiB"}};
  const std::vector<std::string> layers = layers_of_gpus(run);
  const std::vector<std::size_t> rows = shown_rows(metrics.gpus.size(), most_rows);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (r > 0 && rows[r] != rows[r - 1] + 1) table.rows.push_back({"...", "", "", "", "", "", ""});
    const std::size_t g = rows[r];
    const GpuMetrics& gpu = metrics.gpus[g];
    table.rows.push_back({std::to_string(g), layers[g], milliseconds(gpu.busy_ns), milliseconds(gpu.comm_ns),
                          milliseconds(gpu.idle_ns), fixed(100 * lost_fraction(gpu, bubble), 1), memory_text(run, g)});
  }
  const std::size_t hidden = metrics.gpus.size() - rows.size();
  return to_text(table) + (hidden == 0 ? "" : "(" + std::to_string(hidden) + " GPUs are not shown; --json has all)\n") +
         kTimesLegend + recorded_step_text(run);
}

std::string step_time_text(const RunResult& run) {
  std::string text = fixed(run.step_time.median_ms, 3) + " ms, " + (run.measured ? "measured" : "predicted");
  if (run.step_time.n) text += " (median of " + std::to_string(*run.step_time.n) + " steps";
  if (run.step_time.p25_ms && run.step_time.p75_ms) {
    text += ", p25 " + fixed(*run.step_time.p25_ms, 3) + ", p75 " + fixed(*run.step_time.p75_ms, 3);
  }
  return text + (run.step_time.n ? ")" : "");
}

std::string totals(const RunResult& run, const RunMetrics& metrics) {
  const std::string transfers = metrics.transfer_count == 0 ? "none"
                                                            : grouped(metrics.transfer_count) + " between GPUs, " +
                                                                  decimal_bytes(metrics.transfer_bytes) + " in all";
  const std::string lost = has_bubble(run.spec)
                               ? "bubble       " + percent(metrics.bubble_fraction) +
                                     " of the time of all GPUs is not forward or backward work\n"
                               : "idle         " + percent(metrics.idle_fraction) +
                                     " of the time of all GPUs is neither computation nor communication\n";
  const std::string collectives = metrics.collective_count == 0
                                      ? ""
                                      : "collectives  " + grouped(metrics.collective_count) + ", " +
                                            decimal_bytes(metrics.collective_bytes) + " in all\n";
  return "step time    " + step_time_text(run) + "\n" + "throughput   " + fixed(metrics.throughput_samples_per_s, 1) +
         " samples/s\n" + lost + "transfers    " + transfers + "\n" + "parameters   " + grouped(metrics.parameters) +
         " in " + std::to_string(run.spec.model.layers.size()) + " layers\n" + collectives;
}

}  // namespace

std::string terminal_view(const RunResult& run, const ViewStyle& style) {
  const RunMetrics metrics = compute_metrics(run);
  const std::size_t width = style.gantt.width;
  std::string out = wrap(describe(run.spec), width, 2) + wrap(describe_source(run), width, 2) + "\n" +
                    gpu_table(run, metrics, style.gantt.most_rows) + "\n" + totals(run, metrics);
  if (steps_overlap(run.spec)) {
    out += wrap(
        "steps overlap, without a barrier at the optimizer: a step is the time of the GPU that is at it "
        "longest; in the chart each GPU's step begins where it begins (with the barrier: --overlap-steps 0)",
        width, 2);
  }
  for (const std::string& warning : run.warnings) out += wrap("warning: " + warning, width, 9);
  if (style.with_gantt) out += "\n" + gantt(run, style.gantt);
  return out;
}

}  // namespace pdl
