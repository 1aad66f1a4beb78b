// Busy, communication and idle time by one sweep over the ends of the spans of a GPU.
#include "sim/run/metrics.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

namespace pdl {
namespace {

struct Boundary {
  std::int64_t at_ns;
  int compute;  // +1 opens, -1 closes
  int transfer;
  int collective;
};

/// What the spans of one exchange have in common. A send and its receive: direction, micro-batch and receiving stage. A
/// collective: its kind, micro-batch and part.
using Message = std::tuple<int, std::int32_t, std::int32_t>;
Message message_of(const Span& span) {
  if (is_collective(span.kind)) return {static_cast<int>(span.kind), span.microbatch, span.part};
  const std::int32_t receiver = is_receive(span.kind) ? span.stage : other_stage(span.kind, span.stage);
  return {carries_activations(span.kind), span.microbatch, receiver};
}

void measure_time(const std::vector<const Span*>& spans, std::int64_t step_ns, bool own_start, GpuMetrics& gpu) {
  std::vector<Boundary> boundaries;
  for (const Span* span : spans) {
    if (span->kind == TaskKind::sleep) continue;
    const bool transfer = is_transfer(span->kind), collective = is_collective(span->kind);
    const bool compute = !transfer && !collective;
    boundaries.push_back({span->start_ns, compute, transfer, collective});
    boundaries.push_back({span->end_ns, -int{compute}, -int{transfer}, -int{collective}});
    if (is_useful(span->kind)) gpu.useful_ns += span->end_ns - span->start_ns;
  }
  std::sort(boundaries.begin(), boundaries.end(),
            [](const Boundary& a, const Boundary& b) { return a.at_ns < b.at_ns; });
  int compute = 0, transfer = 0, collective = 0;
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
    compute += boundaries[i].compute;
    transfer += boundaries[i].transfer;
    collective += boundaries[i].collective;
    const std::int64_t length = boundaries[i + 1].at_ns - boundaries[i].at_ns;
    (compute > 0 ? gpu.busy_ns : transfer + collective > 0 ? gpu.comm_ns : gpu.idle_between_ns) += length;
    if (compute == 0 && transfer == 0 && collective > 0) gpu.collective_ns += length;
  }
  const std::int64_t first_ns = boundaries.empty() ? 0 : boundaries.front().at_ns;
  const std::int64_t last_ns = boundaries.empty() ? 0 : boundaries.back().at_ns;
  gpu.idle_before_ns = own_start ? 0 : first_ns;
  gpu.idle_after_ns = step_ns - last_ns + (own_start ? first_ns : 0);
  gpu.idle_ns = gpu.idle_before_ns + gpu.idle_between_ns + gpu.idle_after_ns;
  gpu.bubble_fraction = 1 - static_cast<double>(gpu.useful_ns) / static_cast<double>(step_ns);
  gpu.idle_fraction = static_cast<double>(gpu.idle_ns) / static_cast<double>(step_ns);
}

/// The parts of a backward that is cut at its buckets are one operation.
std::vector<std::string> operations(const RunResult& run, std::vector<const Span*> spans, bool with_stage) {
  std::stable_sort(spans.begin(), spans.end(), [](const Span* a, const Span* b) { return a->start_ns < b->start_ns; });
  std::vector<std::string> names;
  for (const Span* span : spans) {
    if (!is_compute(span->kind)) continue;
    const std::string name = span_name(run, *span, with_stage);
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<Span> without_waiting(const Timeline& timeline) {
  std::vector<Span> spans = timeline.spans;
  std::map<Message, Span*> receives;
  std::map<Message, std::int64_t> all_there_ns;
  for (Span& span : spans) {
    if (is_receive(span.kind)) receives.emplace(message_of(span), &span);
    if (!is_collective(span.kind)) continue;
    std::int64_t& last_ns = all_there_ns[message_of(span)];
    last_ns = std::max(last_ns, span.start_ns);
  }
  for (Span& span : spans) {
    if (is_collective(span.kind)) span.start_ns = std::min(all_there_ns[message_of(span)], span.end_ns);
  }
  if (receives.empty()) return spans;
  for (Span& span : spans) {
    if (!is_send(span.kind)) continue;
    const auto receive = receives.find(message_of(span));
    if (receive == receives.end()) continue;
    const std::int64_t both_ns = std::max(span.start_ns, receive->second->start_ns);
    span.start_ns = std::min(both_ns, span.end_ns);
    receive->second->start_ns = std::min(both_ns, receive->second->end_ns);
  }
  return spans;
}

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
  if (run.timeline.spans.empty() || run.timeline.step_ns <= 0) throw std::logic_error("metrics of a run without spans");
  const auto gpus = static_cast<std::size_t>(run.spec.gpus);
  std::vector<std::vector<const Span*>> of_gpu(gpus);
  const std::vector<Span> spans = without_waiting(run.timeline);
  for (const Span& span : spans) of_gpu.at(static_cast<std::size_t>(span.worker)).push_back(&span);

  RunMetrics metrics;
  metrics.step_ns = step_ns(run);
  metrics.gpus.resize(gpus);
  for (const Stage& stage : run.stages) {
    for (const std::int32_t worker : stage.workers)
      metrics.gpus.at(static_cast<std::size_t>(worker)).layers += stage.layer_count;
  }
  const std::vector<bool> several = holds_several_stages(run);
  double useful_ns = 0, idle_ns = 0;
  for (std::size_t g = 0; g < gpus; ++g) {
    measure_time(of_gpu[g], metrics.step_ns, steps_overlap(run.spec), metrics.gpus[g]);
    metrics.gpus[g].ops = operations(run, std::move(of_gpu[g]), several[g]);
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
