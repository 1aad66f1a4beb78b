#include "sim/report/scenario_columns.hpp"

#include <algorithm>
#include <array>

#include "sim/course/questions.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/run/communication.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/gpu_utilisation.hpp"
#include "sim/run/measured_facts.hpp"
#include "sim/run/speedup.hpp"

namespace pdl {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

TableCell whole(std::int64_t value) {
  return {std::to_string(value), static_cast<double>(value)};
}

TableCell count(std::int64_t value) {
  return {grouped(value), static_cast<double>(value)};
}

TableCell real(double value) {
  return {to_text(value), value};
}

/// The exact number is in bytes, as the key of the column says.
TableCell megabytes(std::int64_t bytes) {
  return {fixed(static_cast<double>(bytes) / 1e6, bytes < 1'000'000 ? 3 : 1), static_cast<double>(bytes)};
}

const GpuMetrics& gpu_of(const CellPlace& cell) {
  return cell.run().metrics.gpus[cell.gpu];
}

/// "0-9 | 10-19": layers of GPU 0, of GPU 1, ...; "0-1, 6-7 | 2-3, 4-5" where a GPU holds several stages.
TableCell layer_map(const CellPlace& cell) {
  std::string text;
  for (const std::string& of_gpu : layer_ranges_of_gpus(cell.run().result))
    text += (text.empty() ? "" : " | ") + of_gpu;
  return text;
}

TableCell operations_text(const CellPlace& cell) {
  std::string text;
  for (const std::string& operation : gpu_of(cell).ops) text += (text.empty() ? "" : " ") + operation;
  constexpr std::size_t kMost = 48;
  return text.size() <= kMost ? text : text.substr(0, text.rfind(' ', kMost - 4)) + " ...";
}

std::optional<double> in_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

std::optional<double> step_time(const CellPlace& cell) {
  return cell.run().result.step_time.median_ms;
}

/// Against the first row with the same work.
std::optional<Speedup> gain(const CellPlace& cell) {
  const ScenarioRow& base = cell.table.rows[baseline_row(cell.table, cell.row)];
  if (cell.measured && !base.measured) return std::nullopt;
  const EvaluatedRun& run = cell.measured ? *base.measured : base.predicted;
  return speedup_against({run.result.step_time.median_ms, base.spec.gpus},
                         {cell.run().result.step_time.median_ms, cell.scenario_row().spec.gpus});
}

std::optional<double> speedup(const CellPlace& cell) {
  const auto found = gain(cell);
  return found ? std::optional(found->speedup) : std::nullopt;
}

std::optional<double> efficiency(const CellPlace& cell) {
  const auto found = gain(cell);
  return found ? std::optional(100 * found->efficiency) : std::nullopt;
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

TableCell live_activations(const CellPlace& cell) {
  return whole(most_live(cell.scenario_row().predicted.result));
}

std::optional<double> share_of_step(const CellPlace& cell, std::int64_t ns) {
  return 100 * static_cast<double>(ns) / static_cast<double>(cell.run().metrics.step_ns);
}

std::optional<double> exposed_communication(const CellPlace& cell) {
  return 100 * exposed_communication_fraction(cell.run().metrics);
}

std::optional<double> bubble(const CellPlace& cell) {
  if (!has_bubble(cell.scenario_row().spec)) return std::nullopt;
  return 100 * cell.run().metrics.bubble_fraction;
}

TableCell straggler_text(const CellPlace& cell) {
  const auto& straggler = cell.scenario_row().spec.straggler;
  return straggler ? std::to_string(straggler->rank) + ":" + to_text(straggler->ms) : "-";
}

std::optional<double> stddev(const CellPlace& cell) {
  return measured_facts(cell.run().result).step_time_stddev_ms;
}

std::optional<double> warmup_ratio(const CellPlace& cell) {
  const MeasuredFacts facts = measured_facts(cell.run().result);
  if (facts.warmup_ms.empty()) return std::nullopt;
  return facts.warmup_ms.front() / cell.run().result.step_time.median_ms;
}

std::optional<double> skipped_steps(const CellPlace& cell) {
  const auto skipped = measured_facts(cell.run().result).skipped_steps;
  return skipped ? std::optional(static_cast<double>(*skipped)) : std::nullopt;
}

std::optional<double> first_loss(const CellPlace& cell) {
  const auto losses = measured_facts(cell.run().result).losses;
  return losses.empty() ? std::nullopt : std::optional(losses.front());
}

std::optional<double> last_loss(const CellPlace& cell) {
  const auto losses = measured_facts(cell.run().result).losses;
  return losses.empty() ? std::nullopt : std::optional(losses.back());
}

/// What is decided before anything runs: settings, and what follows from them alone.
ScenarioColumn setting(const char* name, const char* title, const char* unit, const char* meaning,
                       TableCell (*cell)(const CellPlace&)) {
  return {.name = name, .title = title, .unit = unit, .meaning = meaning, .setting = cell};
}

ScenarioColumn of_plan(ScenarioColumn column) {
  column.of_plan = true;
  return column;
}

ScenarioColumn number(const char* name, const char* title, const char* unit, const char* meaning, int digits,
                      std::optional<double> (*value)(const CellPlace&)) {
  return {.name = name, .title = title, .unit = unit, .meaning = meaning, .number = value, .digits = digits};
}

ScenarioColumn of_spans(ScenarioColumn column) {
  column.of_spans = true;
  return column;
}

ScenarioColumn of_each_gpu(ScenarioColumn column) {
  column.per_gpu = true;
  return column;
}

ScenarioColumn measured_only(ScenarioColumn column) {
  column.measured_only = true;
  return column;
}

ScenarioColumn with_error(ScenarioColumn column) {
  column.with_error = true;
  return column;
}

const std::array kColumns = {
    setting("gpus", "GPUs", "", "", [](const CellPlace& c) { return whole(c.scenario_row().spec.gpus); }),
    setting("depth", "layers", "", "", [](const CellPlace& c) { return whole(c.scenario_row().spec.depth); }),
    setting("dim", "width", "", "", [](const CellPlace& c) { return whole(c.scenario_row().spec.dim); }),
    setting("batch", "batch", "", "", [](const CellPlace& c) { return whole(c.scenario_row().spec.batch); }),
    setting("microbatches", "micro-batches", "", "",
            [](const CellPlace& c) { return whole(c.scenario_row().spec.microbatches); }),
    setting("strategy", "strategy", "", "",
            [](const CellPlace& c) -> TableCell { return to_string(c.scenario_row().spec.strategy); }),
    setting("schedule", "schedule", "", "",
            [](const CellPlace& c) -> TableCell {
              return c.scenario_row().spec.strategy == Strategy::pp ? c.scenario_row().spec.schedule : std::string("-");
            }),
    setting("workers", "workers", "", "a thread or process for each GPU, or one thread for all",
            [](const CellPlace& c) -> TableCell { return to_string(c.scenario_row().spec.workers); }),
    of_plan(setting("parameters", "parameters", "", "",
                    [](const CellPlace& c) { return count(c.run().metrics.parameters); })),
    of_plan(setting("layers", "layers of GPU 0 | 1 | ...", "", "", layer_map)),
    of_plan(setting("transfers_forward", "transfers forward", "",
                    "copies of activations from GPU to GPU in the forward pass of one step",
                    [](const CellPlace& c) { return count(forward_transfers(c.run().result).count); })),
    of_plan(setting("transfer_bytes_forward", "transferred forward", "MB",
                    "the activations of these copies, 1 MB = 10^6 bytes",
                    [](const CellPlace& c) { return megabytes(forward_transfers(c.run().result).bytes); })),
    of_plan(setting("transfers", "transfers in a step", "", "",
                    [](const CellPlace& c) { return count(c.run().metrics.transfer_count); })),
    with_error(
        number("step_time_ms", "step", "ms", "time from before the forward pass to after the optimizer", 2, step_time)),
    number("speedup", "speed-up", "",
           "step time of the first row with this model, batch, gradient accumulation and delay / that of this row", 2,
           speedup),
    number("throughput", "throughput", "samples/s", "", 0,
           [](const CellPlace& c) -> std::optional<double> { return c.run().metrics.throughput_samples_per_s; }),
    of_spans(number("bubble", "bubble", "%",
                    "share of the time of all GPUs that is neither forward nor backward computation", 1, bubble)),
    of_spans(number("idle_share", "idle", "%",
                    "share of the time of all GPUs in which they neither compute nor communicate", 1,
                    [](const CellPlace& c) -> std::optional<double> { return 100 * c.run().metrics.idle_fraction; })),
    number("fullest_gpu_gib", "peak memory", "GiB", "of the GPU that has most", 2, fullest_gpu),
    of_plan(setting("live_activations", "in-flight micro-batches", "",
                    "whose activations are kept at once, at most, on a GPU", live_activations)),
    of_spans(of_each_gpu(number("busy", "computes", "%", "share of the step in which the GPU computes", 1,
                                [](const CellPlace& c) { return share_of_step(c, gpu_of(c).busy_ns); }))),
    of_spans(of_each_gpu(number("utilisation", "utilisation", "%",
                                "share of the step in which a kernel runs, NCCL's included, as nvidia-smi shows it", 1,
                                [](const CellPlace& c) -> std::optional<double> {
                                  return 100 * kernel_share(c.run().result, static_cast<std::int32_t>(c.gpu));
                                }))),
    of_spans(of_each_gpu(number("idle_before", "idle before", "ms", "until the first task of the GPU", 2,
                                [](const CellPlace& c) { return in_ms(gpu_of(c).idle_before_ns); }))),
    of_spans(of_each_gpu(number("idle_between", "idle between", "ms", "in gaps between its tasks", 2,
                                [](const CellPlace& c) { return in_ms(gpu_of(c).idle_between_ns); }))),
    of_spans(of_each_gpu(number("idle_after", "idle after", "ms", "from its last task to the end of the step", 2,
                                [](const CellPlace& c) { return in_ms(gpu_of(c).idle_after_ns); }))),
    of_each_gpu(number("peak_memory_gib", "peak memory", "GiB", "", 2, peak_memory)),
    of_each_gpu(of_plan(setting("ops", "order of execution", "", "", operations_text))),
    setting("accum", "ACCUM_STEPS", "", "gradient accumulation steps",
            [](const CellPlace& c) { return whole(c.scenario_row().spec.accum); }),
    setting("effective_batch", "effective batch", "", "",
            [](const CellPlace& c) { return count(c.scenario_row().spec.batch * c.scenario_row().spec.accum); }),
    setting("dtype", "dtype", "", "",
            [](const CellPlace& c) -> TableCell { return to_string(c.scenario_row().spec.dtype); }),
    setting("optimizer", "optimizer", "", "",
            [](const CellPlace& c) -> TableCell { return to_string(c.scenario_row().spec.optimizer); }),
    setting("no_sync", "no_sync", "", "gradients are exchanged in the last accumulation step only",
            [](const CellPlace& c) -> TableCell { return std::string(c.scenario_row().spec.no_sync ? "yes" : "no"); }),
    setting("replicas", "replicas", "", "copies of the model, each with a part of the batch",
            [](const CellPlace& c) { return whole(resolve(c.scenario_row().spec).mesh.dp); }),
    setting("delay_ms", "delay", "ms", "sleep of the host before the backward",
            [](const CellPlace& c) { return real(c.scenario_row().spec.delay_ms); }),
    setting("straggler", "straggler", "rank:ms", "", straggler_text),
    setting("seed", "seed", "", "", [](const CellPlace& c) { return whole(c.scenario_row().spec.seed); }),
    setting("repeat", "repeat", "", "", [](const CellPlace& c) { return whole(c.scenario_row().spec.repeat); }),
    setting("learning_rate", "learning rate", "", "",
            [](const CellPlace& c) { return real(c.scenario_row().spec.learning_rate); }),
    number("efficiency", "efficiency", "%", "speed-up / number of times as many GPUs", 1, efficiency),
    of_spans(number("exposed_communication", "exposed communication", "%",
                    "share of the step in which a GPU communicates and does not compute, averaged over the GPUs", 1,
                    exposed_communication)),
    of_spans(of_each_gpu(number("comm", "communicates", "%",
                                "share of the step in which the GPU communicates and does not compute", 1,
                                [](const CellPlace& c) { return share_of_step(c, gpu_of(c).comm_ns); }))),
    measured_only(number("step_stddev", "standard deviation", "ms", "of the measured steps", 3, stddev)),
    measured_only(number("warmup", "first step", "x median", "", 1, warmup_ratio)),
    measured_only(number("skipped_steps", "skipped steps", "", "by GradScaler, whose gradients were not finite", 0,
                         skipped_steps)),
    measured_only(number("first_loss", "first loss", "", "", 6, first_loss)),
    measured_only(number("last_loss", "last loss", "", "", 6, last_loss)),
};

}  // namespace

std::span<const ScenarioColumn> scenario_columns() {
  return kColumns;
}

ScenarioNames scenario_names() {
  ScenarioNames names;
  for (const ScenarioColumn& column : kColumns) names.columns.push_back(column.name);
  names.answers = exercises();
  return names;
}

}  // namespace pdl
