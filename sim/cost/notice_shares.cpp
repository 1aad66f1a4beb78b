#include "sim/cost/notice_shares.hpp"

#include <algorithm>

namespace pdl {
namespace {

/// By GPU. `counts`: by work; only tasks of these.
std::vector<double> work_ns_of_gpus(const TaskGraph& graph, const std::vector<TaskCost>& costs,
                                    const std::vector<bool>& counts) {
  std::vector<double> gpus_ns(graph.workers, 0.0);
  for (const Task& task : graph.tasks) {
    if (counts[task.work])
      gpus_ns[static_cast<std::size_t>(task.worker)] += static_cast<double>(costs[task.work].span_ns);
  }
  return gpus_ns;
}

}  // namespace

std::vector<std::optional<double>> notice_shares(const std::vector<Notice>& notices, const TaskGraph& graph,
                                                 const std::vector<TaskCost>& costs) {
  std::vector<std::optional<double>> shares(notices.size());
  if (notices.empty()) return shares;
  const std::vector<double> all_ns = work_ns_of_gpus(graph, costs, std::vector<bool>(costs.size(), true));
  for (std::size_t n = 0; n < notices.size(); ++n) {
    if (notices[n].works.empty() && notices[n].host_ns == 0) continue;
    std::vector<bool> counts(costs.size(), false);
    for (const std::size_t work : notices[n].works) counts[work] = true;
    const std::vector<double> part_ns = work_ns_of_gpus(graph, costs, counts);
    double share = 0;
    for (std::size_t g = 0; g < all_ns.size(); ++g) {
      if (all_ns[g] > 0) share = std::max(share, std::min(1.0, (part_ns[g] + notices[n].host_ns) / all_ns[g]));
    }
    shares[n] = share;
  }
  return shares;
}

}  // namespace pdl
