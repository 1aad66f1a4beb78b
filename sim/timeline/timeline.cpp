#include "sim/timeline/timeline.hpp"

#include <algorithm>

namespace pdl {

Timeline make_timeline(const TaskGraph& graph, std::int32_t stages, std::span<const TaskTimes> times) {
  Timeline timeline;
  timeline.workers = static_cast<std::int32_t>(graph.workers);
  timeline.stages = stages;
  timeline.spans.reserve(graph.tasks.size());
  for (std::size_t id = 0; id < graph.tasks.size(); ++id) {
    const Task& task = graph.tasks[id];
    const auto role =
        task.stream == kNone ? StreamRole::none : static_cast<StreamRole>(task.stream % kStreamsPerWorker);
    timeline.spans.push_back(
        {task.kind, role, task.worker, task.stage, task.microbatch, times[id].start_ns, times[id].end_ns});
    timeline.step_ns = std::max(timeline.step_ns, times[id].end_ns);
  }
  return timeline;
}

}  // namespace pdl
