#include "sim/report/concurrency.hpp"

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
  const std::int32_t last_gpu = run.stages.back().worker, first_gpu = run.stages.front().worker;
  FillAndDrain result;
  result.fill_ns = run.timeline.step_ns;
  std::int64_t end_of_last = 0, end_of_first = 0;
  for (const Span& span : run.timeline.spans) {
    if (!is_compute(span.kind)) continue;
    if (span.worker == last_gpu) {
      result.fill_ns = std::min(result.fill_ns, span.start_ns);
      end_of_last = std::max(end_of_last, span.end_ns);
    }
    if (span.worker == first_gpu) end_of_first = std::max(end_of_first, span.end_ns);
  }
  result.drain_ns = end_of_first - end_of_last;
  return result;
}

}  // namespace pdl
