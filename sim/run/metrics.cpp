// Busy, communication and idle time by one sweep over the spans of a GPU.
#include "sim/run/metrics.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/cost/card_limits.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {
namespace {

/// Time in which at least one of some spans runs, which come in the order of their start.
struct Covered {
  std::int64_t ns = 0;
  std::int64_t until_ns = 0;
  void add(std::int64_t start_ns, std::int64_t end_ns) {
    ns += std::max<std::int64_t>(0, end_ns - std::max(start_ns, until_ns));
    until_ns = std::max(until_ns, end_ns);
  }
};

/// What a GPU does with its time, from its spans in the order in which they begin to run.
struct TimeOfGpu {
  Covered compute, compute_or_transfer, all;
  std::int64_t useful_ns = 0;
  std::int64_t first_ns = -1, last_start_ns = 0;
  bool in_order = true;

  void add(TaskKind kind, std::int64_t start_ns, std::int64_t end_ns) {
    if (kind == TaskKind::sleep) return;  // of its host
    if (first_ns < 0) first_ns = start_ns;
    in_order = in_order && last_start_ns <= start_ns;
    last_start_ns = start_ns;
    if (!is_communication(kind)) compute.add(start_ns, end_ns);
    if (!is_collective(kind)) compute_or_transfer.add(start_ns, end_ns);
    all.add(start_ns, end_ns);
    if (is_useful(kind)) useful_ns += end_ns - start_ns;
  }
};

std::vector<const Span*> in_order_of_start(const SpansOfGpus& spans, std::size_t gpu) {
  std::vector<const Span*> ordered;
  spans.for_each(gpu, [&](const Span& span) { ordered.push_back(&span); });
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const Span* a, const Span* b) { return spans.start_ns(*a) < spans.start_ns(*b); });
  return ordered;
}

/// The spans of a GPU mostly are in that order.
TimeOfGpu time_of_gpu(const SpansOfGpus& spans, std::size_t gpu) {
  TimeOfGpu time;
  spans.for_each(gpu, [&](const Span& span) { time.add(span.kind, spans.start_ns(span), span.end_ns); });
  if (time.in_order) return time;
  time = {};
  for (const Span* span : in_order_of_start(spans, gpu)) time.add(span->kind, spans.start_ns(*span), span->end_ns);
  return time;
}

void measure_time(const TimeOfGpu& time, std::int64_t step_ns, bool own_start, GpuMetrics& gpu) {
  const std::int64_t first_ns = std::max<std::int64_t>(0, time.first_ns), last_ns = time.all.until_ns;
  gpu.useful_ns = time.useful_ns;
  gpu.busy_ns = time.compute.ns;
  gpu.comm_ns = time.all.ns - time.compute.ns;
  gpu.collective_ns = time.all.ns - time.compute_or_transfer.ns;
  gpu.idle_before_ns = own_start ? 0 : first_ns;
  gpu.idle_between_ns = last_ns - first_ns - time.all.ns;
  gpu.idle_after_ns = step_ns - last_ns + (own_start ? first_ns : 0);
  gpu.idle_ns = gpu.idle_before_ns + gpu.idle_between_ns + gpu.idle_after_ns;
  gpu.bubble_fraction = 1 - static_cast<double>(gpu.useful_ns) / static_cast<double>(step_ns);
  gpu.idle_fraction = static_cast<double>(gpu.idle_ns) / static_cast<double>(step_ns);
}

/// The parts of a backward that is cut at its buckets are one operation.
std::vector<std::string> operations(const RunResult& run, const std::vector<const Span*>& in_order, bool with_stage) {
  std::vector<std::string> names;
  for (const Span* span : in_order) {
    if (!is_compute(span->kind)) continue;
    const std::string name = span_name(run, *span, with_stage);
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

/// What the model gets done in the median step.
void measure_model(const RunResult& run, RunMetrics& metrics) {
  const double step_s = run.step_time.median_ms / 1e3;
  const auto samples = static_cast<double>(run.spec.batch * run.spec.accum);
  metrics.throughput_samples_per_s = samples / step_s;
  if (const std::int64_t tokens = sequence_tokens(run.spec.model); tokens > 0)
    metrics.tokens_per_s = metrics.throughput_samples_per_s * static_cast<double>(tokens);
  metrics.model_flops = model_flops(run.spec.model) * samples;
  metrics.peak_flops_per_s = dense_peak(card_of(run), run.spec.dtype);
  if (metrics.peak_flops_per_s)
    metrics.mfu = metrics.model_flops / (step_s * static_cast<double>(run.spec.gpus) * *metrics.peak_flops_per_s);
}

}  // namespace

bool has_bubble(const RunSpec& spec) {
  return resolve(spec).mesh.pp > 1;
}

double lost_fraction(const GpuMetrics& gpu, bool bubble) {
  return bubble ? gpu.bubble_fraction : gpu.idle_fraction;
}

std::int64_t step_ns(const RunResult& run) {
  return step_ns(run.timeline, steps_overlap(run.spec));
}

std::string span_name(const RunResult& run, const Span& span, bool with_stage) {
  const auto of_replica =
      static_cast<std::int32_t>(run.stages.size() / std::max<std::size_t>(run.replica_rows.size(), 1));
  return task_name(span.kind, span.stage % of_replica, span.microbatch, with_stage, span.part);
}

std::vector<bool> holds_several_stages(const RunResult& run) {
  std::vector<int> stages(static_cast<std::size_t>(run.spec.gpus), 0);
  for (const Stage& stage : run.stages) {
    for (const std::int32_t worker : stage.workers) ++stages.at(static_cast<std::size_t>(worker));
  }
  std::vector<bool> several;
  for (const int count : stages) several.push_back(count > 1);
  return several;
}

RunMetrics compute_metrics(const RunResult& run) {
  return compute_metrics(run, SpansOfGpus(run.timeline, static_cast<std::size_t>(run.spec.gpus)), Operations::named);
}

RunMetrics compute_metrics(const RunResult& run, const SpansOfGpus& spans, Operations ops) {
  if (run.timeline.spans.empty() || run.timeline.step_ns <= 0) throw std::logic_error("metrics of a run without spans");
  const auto gpus = static_cast<std::size_t>(run.spec.gpus);
  RunMetrics metrics;
  metrics.step_ns = step_ns(run);
  metrics.gpus.resize(gpus);
  for (const Stage& stage : run.stages) {
    for (const std::int32_t worker : stage.workers)
      metrics.gpus.at(static_cast<std::size_t>(worker)).layers += stage.layer_count;
  }
  const std::vector<bool> several = holds_several_stages(run);
  const bool own_start = steps_overlap(run.spec);
  double useful_ns = 0, idle_ns = 0;
  for (std::size_t g = 0; g < gpus; ++g) {
    measure_time(time_of_gpu(spans, g), metrics.step_ns, own_start, metrics.gpus[g]);
    if (ops == Operations::named) metrics.gpus[g].ops = operations(run, in_order_of_start(spans, g), several[g]);
    useful_ns += static_cast<double>(metrics.gpus[g].useful_ns);
    idle_ns += static_cast<double>(metrics.gpus[g].idle_ns);
  }
  const double time_of_all_ns = static_cast<double>(gpus) * static_cast<double>(metrics.step_ns);
  metrics.bubble_fraction = 1 - useful_ns / time_of_all_ns;
  metrics.idle_fraction = idle_ns / time_of_all_ns;
  measure_model(run, metrics);
  metrics.transfer_count = static_cast<std::int64_t>(run.transfer_bytes.size());
  for (const std::int64_t bytes : run.transfer_bytes) metrics.transfer_bytes += bytes;
  metrics.collective_count = static_cast<std::int64_t>(run.collective_bytes.size());
  for (const std::int64_t bytes : run.collective_bytes) metrics.collective_bytes += bytes;
  metrics.parameters = parameters(run.spec.model);
  return metrics;
}

}  // namespace pdl
