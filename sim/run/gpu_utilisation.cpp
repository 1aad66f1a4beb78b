#include "sim/run/gpu_utilisation.hpp"

#include <vector>

#include "sim/run/intervals.hpp"
#include "sim/run/metrics.hpp"

namespace pdl {

double kernel_share(const RunResult& run, std::int32_t gpu) {
  std::vector<Interval> kernels;
  for (const Span& span : run.timeline.spans) {
    const bool copy = is_transfer(span.kind) && run.spec.transport == Transport::copy;
    if (span.worker == gpu && span.kind != TaskKind::sleep && !copy) kernels.emplace_back(span.start_ns, span.end_ns);
  }
  return static_cast<double>(covered_ns(std::move(kernels))) / static_cast<double>(step_ns(run));
}

}  // namespace pdl
