#include "sim/cost/task_cost.hpp"

#include <algorithm>
#include <stdexcept>

namespace pdl {

TaskCost collapse(std::span<const std::int64_t> issue_ns, std::span<const std::int64_t> device_ns) {
  if (issue_ns.size() != device_ns.size()) throw std::invalid_argument("collapse: lists of different lengths");
  TaskCost cost;
  if (issue_ns.empty()) return cost;
  cost.first_launch_ns = issue_ns.front();
  std::int64_t end_ns = 0;  // of the kernels so far, on an idle stream, from the start of issue
  for (std::size_t k = 0; k < issue_ns.size(); ++k) {
    cost.issue_ns += issue_ns[k];
    cost.device_ns += device_ns[k];
    end_ns = std::max(end_ns, cost.issue_ns) + device_ns[k];
  }
  cost.span_ns = end_ns;
  return cost;
}

}  // namespace pdl
