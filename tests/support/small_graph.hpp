// A graph of tasks without edges: which piece of work is done where. For what sums over tasks.
//
//   small_graph(3, 2, {{2, 1}, {0, 0}})      // 3 works on 2 GPUs: work 2 on GPU 1, then work 0 on GPU 0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "sim/plan/task_graph.hpp"

namespace pdl {

inline TaskGraph small_graph(std::size_t works, std::int32_t workers,
                             std::initializer_list<std::pair<std::uint32_t, std::int32_t>> tasks) {
  TaskGraph graph;
  graph.workers = workers;
  graph.works.resize(works);
  for (const auto& [work, worker] : tasks) {
    Task task;
    task.work = work;
    task.worker = worker;
    graph.tasks.push_back(task);
  }
  return graph;
}

}  // namespace pdl
