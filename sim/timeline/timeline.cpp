#include "sim/timeline/timeline.hpp"

#include <algorithm>
#include <limits>

namespace pdl {

Timeline make_timeline(const TaskGraph& graph, std::int32_t stages, std::span<const TaskTimes> times) {
  Timeline timeline;
  timeline.workers = static_cast<std::int32_t>(graph.workers);
  timeline.stages = stages;
  for (std::size_t id = 0; id < times.size(); ++id) {
    timeline.spans.push_back(span_of(graph.tasks[id], times[id]));
    timeline.step_ns = std::max(timeline.step_ns, times[id].end_ns);
  }
  return timeline;
}

std::int64_t longest_worker_ns(const Timeline& timeline) {
  std::vector<std::int64_t> first(static_cast<std::size_t>(timeline.workers), std::numeric_limits<std::int64_t>::max());
  std::vector<std::int64_t> last(first.size(), 0);
  for (const Span& span : timeline.spans) {
    const auto w = static_cast<std::size_t>(span.worker);
    first[w] = std::min(first[w], span.start_ns);
    last[w] = std::max(last[w], span.end_ns);
  }
  std::int64_t longest_ns = 0;
  for (std::size_t w = 0; w < first.size(); ++w) longest_ns = std::max(longest_ns, last[w] - first[w]);
  return longest_ns;
}

std::int64_t step_ns(const Timeline& timeline, bool steps_overlap) {
  return steps_overlap ? longest_worker_ns(timeline) : timeline.step_ns;
}

}  // namespace pdl
