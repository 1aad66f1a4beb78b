#include "sim/report/terminal.hpp"

#include <algorithm>
#include <cmath>

#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/report/text_table.hpp"
#include "sim/run/metrics.hpp"

namespace pdl {
namespace {

std::string text_at(const nlohmann::json& object, const char* key, const std::string& otherwise) {
  if (!object.is_object() || !object.contains(key) || object[key].is_null()) return otherwise;
  return object[key].is_string() ? object[key].get<std::string>() : object[key].dump();
}

/// "1 ms", or "1, 1, 2, 1 ms (by stage)".
std::string describe_costs(const std::vector<double>& by_stage) {
  std::string text;
  for (const double ms : by_stage) text += (text.empty() ? "" : ", ") + to_text(ms);
  return text + (by_stage.size() > 1 ? " ms (by stage)" : " ms");
}

std::string describe_synthetic(const SyntheticCosts& costs) {
  const std::string backward = costs.tw_ms ? "input gradient " + describe_costs(costs.tb_ms) + ", weight gradient " +
                                                 describe_costs(*costs.tw_ms)
                                           : "backward " + describe_costs(costs.tb_ms);
  return "synthetic costs: forward " + describe_costs(costs.tf_ms) + ", " + backward + ", transfer " +
         to_text(costs.tcomm_ms) + " ms, for each stage and micro-batch; nothing else takes time";
}

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

std::string describe_source(const RunResult& run) {
  if (!run.measured && run.spec.synthetic) return describe_synthetic(*run.spec.synthetic);
  const nlohmann::json& environment = run.environment;
  const bool profiled = !run.measured && environment.is_object() && environment.contains("profile");
  const nlohmann::json& source = profiled ? environment["profile"] : environment;
  const std::string host = text_at(source, "count", "?") + " x " + text_at(source, "card", "unknown card");
  const std::string date = text_at(source, "date", "at an unknown date");
  if (!profiled) return "measured on " + host + ", " + date;
  const std::string chosen_as = text_at(source, "chosen_as", "");
  return "costs: profile " + text_at(source, "name", "?") + " (" + host + ", measured " + date + ")" +
         (chosen_as.empty() ? "" : "; by default: " + chosen_as + " (choose with --profile)");
}

std::vector<std::string> layers_of_gpus(const RunResult& run) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(run.spec.gpus), 0);
  std::vector<std::string> ranges(counts.size());
  for (const Stage& stage : run.stages) {
    const auto gpu = static_cast<std::size_t>(only_worker(stage));
    counts[gpu] += stage.layer_count;
    const std::int32_t last = stage.first_layer + stage.layer_count - 1;
    ranges[gpu] += (ranges[gpu].empty() ? "" : ", ") + std::to_string(stage.first_layer) +
                   (last > stage.first_layer ? "-" + std::to_string(last) : "");
  }
  std::vector<std::string> texts;
  for (std::size_t g = 0; g < counts.size(); ++g) texts.push_back(std::to_string(counts[g]) + " (" + ranges[g] + ")");
  return texts;
}

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
