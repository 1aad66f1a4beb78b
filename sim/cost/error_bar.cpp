#include "sim/cost/error_bar.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "sim/cost/price.hpp"

namespace pdl {
namespace {

/// The GPU with the most work and how often it does each piece; of equals the first.
struct BusiestGpu {
  double work_ns = 0;
  std::vector<double> times;  // by work
};

BusiestGpu busiest_gpu(const TaskGraph& graph, const std::vector<TaskCost>& costs) {
  std::vector<double> gpus_ns(graph.workers, 0.0);
  for (const Task& task : graph.tasks)
    gpus_ns[static_cast<std::size_t>(task.worker)] += static_cast<double>(costs[task.work].span_ns);
  const auto most = std::max_element(gpus_ns.begin(), gpus_ns.end());
  BusiestGpu busiest{most == gpus_ns.end() ? 0 : *most, std::vector<double>(costs.size(), 0.0)};
  for (const Task& task : graph.tasks) {
    if (task.worker == most - gpus_ns.begin()) ++busiest.times[task.work];
  }
  return busiest;
}

double part_percent(const ErrorCarrier& carrier) {
  return carrier.share * carrier.half_width_percent;
}

}  // namespace

std::optional<ErrorBar> error_bar(const std::vector<PriceError>& errors, const TaskGraph& graph,
                                  const std::vector<TaskCost>& costs, double host_difference) {
  if (errors.empty()) return std::nullopt;
  const BusiestGpu gpu = busiest_gpu(graph, costs);
  if (gpu.work_ns <= 0) return std::nullopt;
  ErrorBar bar;
  for (const PriceError& error : errors) {
    double source_ns = 0;
    for (const auto& [work, ns] : error.works_ns) source_ns += gpu.times[work] * ns;
    if (source_ns <= 0) continue;
    const double share = std::min(1.0, source_ns / gpu.work_ns);
    bar.carriers.push_back({error.what, share, 100 * error.half_width, error.probed});
    if (!error.probed) bar.unprobed_share = std::min(1.0, bar.unprobed_share + share);
  }
  if (host_difference > 0)
    bar.carriers.push_back({"a slow host instead of the usual one", 1, 100 * host_difference, true});
  double squares = std::pow(100 * kStepFloor, 2);
  for (const ErrorCarrier& carrier : bar.carriers) squares += std::pow(part_percent(carrier), 2);
  bar.half_width_percent = std::sqrt(squares);
  std::stable_sort(bar.carriers.begin(), bar.carriers.end(),
                   [](const ErrorCarrier& a, const ErrorCarrier& b) { return part_percent(a) > part_percent(b); });
  if (bar.carriers.size() > kMostCarriers) bar.carriers.resize(kMostCarriers);
  return bar;
}

}  // namespace pdl
