#include "sim/run/gpu_alone.hpp"

#include <algorithm>

#include "sim/run/intervals.hpp"
#include "sim/run/metrics.hpp"

namespace pdl {
namespace {

/// +1 and -1 of the two things that are counted, at a time.
struct Change {
  std::int64_t at_ns;
  int own;
  int passes;
};

}  // namespace

std::int64_t time_of_kind_ns(const RunResult& run, std::int32_t gpu, TaskKind kind) {
  std::vector<Interval> spans;
  for (const Span& span : without_waiting(run.timeline)) {
    if (span.worker == gpu && span.kind == kind) spans.push_back({span.start_ns, span.end_ns});
  }
  return covered_ns(std::move(spans));
}

std::int64_t leading_ns(const RunResult& run, std::int32_t gpu) {
  std::vector<Change> changes;
  for (const Span& span : without_waiting(run.timeline)) {
    const bool pass = is_compute(span.kind), own = !pass && span.kind != TaskKind::sleep && span.worker == gpu;
    if (!pass && !own) continue;
    changes.push_back({span.start_ns, own, pass});
    changes.push_back({span.end_ns, -int{own}, -int{pass}});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at_ns < b.at_ns; });
  std::int64_t leading = 0;
  int own = 0, passes = 0;
  for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
    own += changes[i].own;
    passes += changes[i].passes;
    if (own > 0 && passes == 0) leading += changes[i + 1].at_ns - changes[i].at_ns;
  }
  return leading;
}

}  // namespace pdl
