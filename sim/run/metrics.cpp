// Busy, communication and idle time by one sweep over the spans of a GPU.
#include "sim/run/metrics.hpp"

#include <algorithm>
#include <stdexcept>

namespace pdl {
namespace {

/// The spans of a GPU but for sleeps of its host, in the order in which they begin to run. They mostly are so already.
class InOrderOfStart {
 public:
  explicit InOrderOfStart(const SpansOfGpus& spans) : spans_(spans) {}

  const std::vector<const Span*>& of_gpu(std::size_t gpu) {
    ordered_.clear();
    bool in_order = true;
    std::int64_t last_ns = 0;
    spans_.for_each(gpu, [&](const Span& span) {
      if (span.kind == TaskKind::sleep) return;
      in_order = in_order && last_ns <= spans_.start_ns(span);
      last_ns = spans_.start_ns(span);
      ordered_.push_back(&span);
    });
    if (!in_order) {
      std::stable_sort(ordered_.begin(), ordered_.end(),
                       [&](const Span* a, const Span* b) { return spans_.start_ns(*a) < spans_.start_ns(*b); });
    }
    return ordered_;
  }

 private:
  const SpansOfGpus& spans_;
  std::vector<const Span*> ordered_;  // of the last GPU that was asked for
};

/// Time in which at least one of some spans runs, which come in the order of their start.
struct Covered {
  std::int64_t ns = 0;
  std::int64_t until_ns = 0;
  void add(std::int64_t start_ns, std::int64_t end_ns) {
    ns += std::max<std::int64_t>(0, end_ns - std::max(start_ns, until_ns));
    until_ns = std::max(until_ns, end_ns);
  }
};

void measure_time(const std::vector<const Span*>& in_order, const SpansOfGpus& spans, std::int64_t step_ns,
                  bool own_start, GpuMetrics& gpu) {
  Covered compute, compute_or_transfer, all;
  for (const Span* span : in_order) {
    const std::int64_t start_ns = spans.start_ns(*span), end_ns = span->end_ns;
    if (!is_communication(span->kind)) compute.add(start_ns, end_ns);
    if (!is_collective(span->kind)) compute_or_transfer.add(start_ns, end_ns);
    all.add(start_ns, end_ns);
    if (is_useful(span->kind)) gpu.useful_ns += end_ns - start_ns;
  }
  const std::int64_t first_ns = in_order.empty() ? 0 : spans.start_ns(*in_order.front()), last_ns = all.until_ns;
  gpu.busy_ns = compute.ns;
  gpu.comm_ns = all.ns - compute.ns;
  gpu.collective_ns = all.ns - compute_or_transfer.ns;
  gpu.idle_before_ns = own_start ? 0 : first_ns;
  gpu.idle_between_ns = last_ns - first_ns - all.ns;
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
  InOrderOfStart in_order(spans);
  double useful_ns = 0, idle_ns = 0;
  for (std::size_t g = 0; g < gpus; ++g) {
    const std::vector<const Span*>& of_gpu = in_order.of_gpu(g);
    measure_time(of_gpu, spans, metrics.step_ns, own_start, metrics.gpus[g]);
    if (ops == Operations::named) metrics.gpus[g].ops = operations(run, of_gpu, several[g]);
    useful_ns += static_cast<double>(metrics.gpus[g].useful_ns);
    idle_ns += static_cast<double>(metrics.gpus[g].idle_ns);
  }
  const double time_of_all_ns = static_cast<double>(gpus) * static_cast<double>(metrics.step_ns);
  metrics.bubble_fraction = 1 - useful_ns / time_of_all_ns;
  metrics.idle_fraction = idle_ns / time_of_all_ns;
  metrics.throughput_samples_per_s =
      static_cast<double>(run.spec.batch * run.spec.accum) / (run.step_time.median_ms / 1e3);
  metrics.transfer_count = static_cast<std::int64_t>(run.transfer_bytes.size());
  for (const std::int64_t bytes : run.transfer_bytes) metrics.transfer_bytes += bytes;
  metrics.collective_count = static_cast<std::int64_t>(run.collective_bytes.size());
  for (const std::int64_t bytes : run.collective_bytes) metrics.collective_bytes += bytes;
  metrics.parameters = parameters(run.spec.model);
  return metrics;
}

}  // namespace pdl
