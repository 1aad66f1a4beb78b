#include "sim/report/communication.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace pdl {
namespace {

using Interval = std::pair<std::int64_t, std::int64_t>;

/// The time that is in at least one of them.
std::int64_t covered_ns(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::int64_t covered = 0, until = 0;
  for (const auto& [start, end] : intervals) {
    covered += std::max<std::int64_t>(0, end - std::max(start, until));
    until = std::max(until, end);
  }
  return covered;
}

}  // namespace

CommunicationTime communication_time(const RunResult& run, const RunMetrics& metrics) {
  const auto longest = std::max_element(metrics.gpus.begin(), metrics.gpus.end(), [](const auto& a, const auto& b) { return a.comm_ns < b.comm_ns; });
  const auto gpu = static_cast<std::int32_t>(longest - metrics.gpus.begin());
  std::vector<Interval> running, backward;
  for (const Span& span : without_waiting(run.timeline)) {
    if (span.worker != gpu) continue;
    if (is_communication(span.kind)) running.push_back({span.start_ns, span.end_ns});
    const bool gradients = is_useful(span.kind) && span.kind != TaskKind::forward;
    if (gradients) backward.push_back({span.start_ns, span.end_ns});
  }
  return {covered_ns(std::move(running)), longest->comm_ns, covered_ns(std::move(backward))};
}

double exposed_communication_fraction(const RunMetrics& metrics) {
  double exposed_ns = 0;
  for (const GpuMetrics& gpu : metrics.gpus) exposed_ns += static_cast<double>(gpu.comm_ns);
  return exposed_ns / (static_cast<double>(metrics.gpus.size()) * static_cast<double>(metrics.step_ns));
}

}  // namespace pdl
