#include "sim/report/scenario_columns.hpp"

#include <algorithm>
#include <array>

#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/run/communication.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/measured_facts.hpp"
#include "sim/run/speedup.hpp"

namespace pdl {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

const GpuMetrics& gpu_of(const CellPlace& cell) {
  return cell.run().metrics.gpus[cell.gpu];
}

/// "0-9 | 10-19": layers of GPU 0, of GPU 1, ...; "0-1, 6-7 | 2-3, 4-5" where a GPU holds several stages.
std::string layer_map(const CellPlace& cell) {
  std::string text;
  for (const std::string& of_gpu : layer_ranges_of_gpus(cell.run().result))
    text += (text.empty() ? "" : " | ") + of_gpu;
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

std::string live_activations(const CellPlace& cell) {
  return std::to_string(most_live(cell.scenario_row().predicted.result));
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

std::string straggler_text(const CellPlace& cell) {
  const auto& straggler = cell.scenario_row().spec.straggler;
  return straggler ? std::to_string(straggler->rank) + ": " + to_text(straggler->ms) : "-";
}

std::string quartiles_text(const CellPlace& cell) {
  const StepTime& time = cell.run().result.step_time;
  return time.p25_ms && time.p75_ms ? fixed(*time.p25_ms, 2) + ".." + fixed(*time.p75_ms, 2) : "-";
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

/// A column of a setting.
ScenarioColumn setting(const char* name, const char* title, const char* unit, const char* meaning,
                       std::string (*text)(const CellPlace&)) {
  ScenarioColumn column{name, title, unit, meaning};
  column.text = text;
  return column;
}

/// A column of a number, predicted and measured.
ScenarioColumn number(const char* name, const char* title, const char* unit, const char* meaning, int digits,
                      bool per_gpu, std::optional<double> (*value)(const CellPlace&)) {
  ScenarioColumn column{name, title, unit, meaning, per_gpu};
  column.number = value;
  column.digits = digits;
  return column;
}

/// A number that is read off the spans of one step.
ScenarioColumn of_spans(ScenarioColumn column) {
  column.of_spans = true;
  return column;
}

ScenarioColumn measured_number(const char* name, const char* title, const char* unit, const char* meaning, int digits,
                               std::optional<double> (*value)(const CellPlace&)) {
  ScenarioColumn column = number(name, title, unit, meaning, digits, false, value);
  column.measured_only = true;
  return column;
}

ScenarioColumn step_quartiles() {
  ScenarioColumn column{"step_quartiles", "p25..p75", "ms",
                        "p25..p75: a quarter of the measured steps is shorter, a quarter longer"};
  column.text_of_run = quartiles_text;
  column.measured_only = true;
  return column;
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
                   [](const CellPlace& c) {
                     return c.scenario_row().spec.strategy == Strategy::pp ? c.scenario_row().spec.schedule
                                                                           : std::string("-");
                   }},
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
    ScenarioColumn{"step_time_ms", "step\ntime", "ms", "step time: from before the forward pass to after the optimizer",
                   false, nullptr, step_time, 2, true},
    ScenarioColumn{"speedup", "speed-up", "",
                   "speed-up: step time of the first row with this model, batch, rounds and delay / that of this row",
                   false, nullptr, speedup, 2},
    ScenarioColumn{"throughput", "through-\nput", "samples/s", "", false, nullptr,
                   [](const CellPlace& c) -> std::optional<double> { return c.run().metrics.throughput_samples_per_s; },
                   0},
    of_spans(number("bubble", "bubble", "%",
                    "bubble: share of the time of all GPUs of a pipeline that is not forward or backward work", 1,
                    false, bubble)),
    of_spans(number(
        "idle_share", "idle", "%",
        "idle: share of the time of all GPUs in which they are neither at a task of computation nor communicate", 1,
        false, [](const CellPlace& c) -> std::optional<double> { return 100 * c.run().metrics.idle_fraction; })),
    ScenarioColumn{"fullest_gpu_gib", "fullest\nGPU", "GiB",
                   "fullest GPU: the most that is allocated at once on the GPU that has most", false, nullptr,
                   fullest_gpu, 2},
    ScenarioColumn{"live_activations", "live", "most",
                   "live: activations (of a stage and a micro-batch) kept at once, on the GPU that keeps most", false,
                   live_activations},
    of_spans(number("busy", "busy", "%",
                    "busy: share of the step in which the GPU is at a task of computation, from its first kernel to "
                    "its last; where the host bounds the step, waits for the host are inside",
                    1, true, [](const CellPlace& c) { return share_of_step(c, gpu_of(c).busy_ns); })),
    of_spans({"idle", "idle, when", "ms",
              "idle, when: before the first task of the GPU + between its tasks + after its last "
              "task, until the end of the step",
              true, nullptr, nullptr, 0, false, idle_text}),
    ScenarioColumn{"peak_memory_gib", "peak\nmemory", "GiB", "peak memory: the most that is allocated at once", true,
                   nullptr, peak_memory, 2, true},
    ScenarioColumn{"ops", "order of execution", "",
                   "order of execution: F2 is the forward of micro-batch 2, B2 its backward", true, operations_text},
    setting("accum", "rounds", "a step",
            "rounds: of the batch whose gradients are added up before the optimizer's step (ACCUM_STEPS)",
            [](const CellPlace& c) { return std::to_string(c.scenario_row().spec.accum); }),
    setting("effective_batch", "effective", "batch",
            "effective batch: samples whose gradients make one step: batch x rounds",
            [](const CellPlace& c) { return grouped(c.scenario_row().spec.batch * c.scenario_row().spec.accum); }),
    setting("dtype", "dtype", "", "", [](const CellPlace& c) { return to_string(c.scenario_row().spec.dtype); }),
    setting("optimizer", "opti-\nmizer", "", "",
            [](const CellPlace& c) { return to_string(c.scenario_row().spec.optimizer); }),
    setting("no_sync", "no_", "sync", "no_sync: gradients are exchanged in the last round of a step only",
            [](const CellPlace& c) { return std::string(c.scenario_row().spec.no_sync ? "yes" : "no"); }),
    setting("replicas", "repli-\ncas", "", "replicas: copies of the model, each with a part of the batch",
            [](const CellPlace& c) { return std::to_string(resolve(c.scenario_row().spec).mesh.dp); }),
    setting("delay_ms", "delay", "ms", "delay: the host sleeps so long before the backward",
            [](const CellPlace& c) { return to_text(c.scenario_row().spec.delay_ms); }),
    setting("straggler", "strag-\ngler", "rank: ms",
            "straggler: the host of this GPU sleeps so long at the start of every step", straggler_text),
    setting("seed", "seed", "", "", [](const CellPlace& c) { return std::to_string(c.scenario_row().spec.seed); }),
    setting("repeat", "re-\npeat", "", "repeat: which of several measurements with equal settings",
            [](const CellPlace& c) { return std::to_string(c.scenario_row().spec.repeat); }),
    number("efficiency", "effi-\nciency", "%",
           "efficiency: speed-up / (GPUs of the row / GPUs of the row that it refers to)", 1, false, efficiency),
    of_spans(number("exposed_communication", "exposed\ncomm.", "%",
                    "exposed comm.: share of the step in which a GPU communicates and is at no task of computation, "
                    "averaged over the GPUs; where the host bounds the step, waits for the host are inside such tasks",
                    1, false, exposed_communication)),
    of_spans(number("comm", "commu-\nnicates", "%",
                    "communicates: share of the step in which the GPU communicates and is at no task of computation", 1,
                    true, [](const CellPlace& c) { return share_of_step(c, gpu_of(c).comm_ns); })),
    step_quartiles(),
    measured_number("step_stddev", "devi-\nation", "ms", "deviation: standard deviation of the measured steps", 3,
                    stddev),
    measured_number("warmup", "first\nstep", "x median", "first step: time of the very first step / median step time",
                    1, warmup_ratio),
    measured_number("skipped_steps", "skip-\nped", "steps",
                    "skipped: measured steps whose gradients were not finite in fp16 (GradScaler)", 0, skipped_steps),
    measured_number("first_loss", "loss", "first", "loss: of the first and of the last step, warm-up included", 6,
                    first_loss),
    measured_number("last_loss", "loss", "last", "", 6, last_loss),
};

}  // namespace

std::span<const ScenarioColumn> scenario_columns() {
  return kColumns;
}

}  // namespace pdl
