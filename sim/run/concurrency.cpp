#include "sim/run/concurrency.hpp"

#include <algorithm>
#include <map>

namespace pdl {

Concurrency concurrency(const RunResult& run) {
  std::map<std::int64_t, std::int64_t> change;  // time -> GPUs that begin minus GPUs that end
  double useful_ns = 0;
  for (const Span& span : run.timeline.spans) {
    if (!is_useful(span.kind) || span.end_ns == span.start_ns) continue;
    ++change[span.start_ns];
    --change[span.end_ns];
    useful_ns += static_cast<double>(span.end_ns - span.start_ns);
  }
  std::map<std::int64_t, std::int64_t> time_at;  // number of GPUs -> time
  std::int64_t count = 0, last_ns = 0;
  for (const auto& [at_ns, delta] : change) {
    time_at[count] += at_ns - last_ns;
    count += delta;
    last_ns = at_ns;
  }
  Concurrency result;
  result.average = useful_ns / static_cast<double>(run.timeline.step_ns);
  for (const auto& [gpus, time_ns] : time_at) {
    if (time_ns * 1000 > run.timeline.step_ns) result.most = std::max(result.most, gpus);
    if (gpus >= run.spec.gpus) result.all_busy_ns += time_ns;
  }
  return result;
}

FillAndDrain fill_and_drain(const RunResult& run) {
  std::map<std::int32_t, std::pair<std::int64_t, std::int64_t>> ends;  // GPU -> its first start, its last end
  for (const Span& span : run.timeline.spans) {
    if (!is_compute(span.kind)) continue;
    auto& [first_ns, last_ns] = ends.try_emplace(span.worker, span.start_ns, span.end_ns).first->second;
    first_ns = std::min(first_ns, span.start_ns);
    last_ns = std::max(last_ns, span.end_ns);
  }
  FillAndDrain result;
  std::int64_t first_done_ns = run.timeline.step_ns, all_done_ns = 0;
  for (const auto& [gpu, of_gpu] : ends) {
    result.fill_ns = std::max(result.fill_ns, of_gpu.first);
    first_done_ns = std::min(first_done_ns, of_gpu.second);
    all_done_ns = std::max(all_done_ns, of_gpu.second);
  }
  result.drain_ns = std::max<std::int64_t>(0, all_done_ns - first_done_ns);
  return result;
}

}  // namespace pdl
