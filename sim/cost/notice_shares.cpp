#include "sim/cost/notice_shares.hpp"

#include <algorithm>

namespace pdl {
namespace {

/// By GPU. `shares`: by work, how much of it counts.
std::vector<double> work_ns_of_gpus(const TaskGraph& graph, const std::vector<TaskCost>& costs,
                                    const std::vector<double>& shares) {
  std::vector<double> gpus_ns(graph.workers, 0.0);
  for (const Task& task : graph.tasks)
    gpus_ns[static_cast<std::size_t>(task.worker)] += shares[task.work] * static_cast<double>(costs[task.work].span_ns);
  return gpus_ns;
}

/// How much of its work a notice is about.
double share_of_work(const WorkOfNotice& of, const TaskCost& cost) {
  const auto all_ns = static_cast<double>(cost.device_ns);
  return of.device_ns < all_ns ? of.device_ns / all_ns : 1;
}

}  // namespace

std::vector<std::optional<double>> notice_shares(const std::vector<Notice>& notices, const TaskGraph& graph,
                                                 const std::vector<TaskCost>& costs) {
  std::vector<std::optional<double>> shares(notices.size());
  if (notices.empty()) return shares;
  const std::vector<double> all_ns = work_ns_of_gpus(graph, costs, std::vector<double>(costs.size(), 1));
  for (std::size_t n = 0; n < notices.size(); ++n) {
    if (notices[n].works.empty() && notices[n].host_ns == 0) continue;
    std::vector<double> of_works(costs.size(), 0);
    for (const WorkOfNotice& of : notices[n].works) of_works[of.work] = share_of_work(of, costs[of.work]);
    const std::vector<double> part_ns = work_ns_of_gpus(graph, costs, of_works);
    double share = 0;
    for (std::size_t g = 0; g < all_ns.size(); ++g) {
      if (all_ns[g] > 0) share = std::max(share, std::min(1.0, (part_ns[g] + notices[n].host_ns) / all_ns[g]));
    }
    shares[n] = share;
  }
  return shares;
}

}  // namespace pdl
