#include "sim/run/communication.hpp"

#include <cmath>
#include <vector>

#include "sim/run/intervals.hpp"

namespace pdl {
namespace {

double mean_exposed_ns(const RunMetrics& metrics) {
  double exposed_ns = 0;
  for (const GpuMetrics& gpu : metrics.gpus) exposed_ns += static_cast<double>(gpu.comm_ns);
  return exposed_ns / static_cast<double>(metrics.gpus.size());
}

std::int64_t mean_covered_ns(std::vector<std::vector<Interval>> of_gpus) {
  double covered = 0;
  for (std::vector<Interval>& intervals : of_gpus) covered += static_cast<double>(covered_ns(std::move(intervals)));
  return std::llround(covered / static_cast<double>(of_gpus.size()));
}

}  // namespace

CommunicationTime communication_time(const RunResult& run, const RunMetrics& metrics) {
  std::vector<std::vector<Interval>> running(metrics.gpus.size()), backward(metrics.gpus.size());
  for (const Span& span : without_waiting(run.timeline)) {
    const auto gpu = static_cast<std::size_t>(span.worker);
    if (is_communication(span.kind)) running.at(gpu).push_back({span.start_ns, span.end_ns});
    const bool gradients = is_useful(span.kind) && span.kind != TaskKind::forward;
    if (gradients) backward.at(gpu).push_back({span.start_ns, span.end_ns});
  }
  return {mean_covered_ns(std::move(running)), std::llround(mean_exposed_ns(metrics)),
          mean_covered_ns(std::move(backward))};
}

double exposed_communication_fraction(const RunMetrics& metrics) {
  return mean_exposed_ns(metrics) / static_cast<double>(metrics.step_ns);
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

}  // namespace pdl
