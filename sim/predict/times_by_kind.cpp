#include "sim/predict/times_by_kind.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace pdl {
namespace {

/// How often each work is in the graph.
std::vector<double> tasks_of_works(const TaskGraph& graph) {
  std::vector<double> tasks(graph.works.size(), 0);
  for (const Task& task : graph.tasks) ++tasks[task.work];
  return tasks;
}

struct Sum {
  std::string_view name;
  double ns = 0;
};

/// There are few.
void add(std::vector<Sum>& sums, std::string_view name, double ns) {
  for (Sum& sum : sums) {
    if (sum.name == name) {
      sum.ns += ns;
      return;
    }
  }
  sums.push_back({name, ns});
}

double taken(std::vector<Sum>& sums, std::string_view name) {
  const auto found = std::find_if(sums.begin(), sums.end(), [&](const Sum& sum) { return sum.name == name; });
  if (found == sums.end()) return 0;
  const double ns = found->ns;
  sums.erase(found);
  return ns;
}

/// What is no layer, and the rest, behind layers.
std::vector<NamedTime> with_rest(std::vector<NamedTime> layers, std::vector<Sum>& others, double ms_of_ns,
                                 double step_ms) {
  for (const std::string_view name : {kind_names::kLoss, kind_names::kOptimizer, kind_names::kOther}) {
    if (const double ns = taken(others, name); ns > 0) layers.push_back({std::string(name), ns * ms_of_ns});
  }
  double sum_ms = 0;
  for (const NamedTime& time : layers) sum_ms += time.ms;
  layers.push_back({"rest", std::max(0.0, step_ms - sum_ms)});
  return layers;
}

}  // namespace

TimesByKind times_by_kind(const Plan& plan, const PricedWork& priced, double step_ms) {
  if (priced.kinds_ns.empty()) return {};
  const std::vector<double> tasks = tasks_of_works(plan.graph);
  std::vector<Sum> kinds, parts, others;
  for (const KindTime& time : priced.kinds_ns) {
    const double ns = time.device_ns * tasks[time.work];
    add(time.kind ? kinds : others, time.name, ns);
    if (time.kind) add(parts, time.part, ns);
  }
  const double ms_of_ns = 1e-6 / static_cast<double>(plan.graph.workers);
  std::vector<Sum> same_others = others;
  TimesByKind times;
  std::stable_sort(kinds.begin(), kinds.end(), [](const Sum& a, const Sum& b) { return a.ns > b.ns; });
  for (const Sum& kind : kinds) times.kinds.push_back({std::string(kind.name), kind.ns * ms_of_ns});
  times.kinds = with_rest(std::move(times.kinds), others, ms_of_ns, step_ms);
  for (const Sum& beside : others) times.kinds.push_back({std::string(beside.name), beside.ns * ms_of_ns, true});
  using namespace part_names;
  for (const std::string_view part : {kEmbedding, kAttention, kMlp, kLayers, kHead}) {
    if (const double ns = taken(parts, part); ns > 0) times.parts.push_back({std::string(part), ns * ms_of_ns});
  }
  times.parts = with_rest(std::move(times.parts), same_others, ms_of_ns, step_ms);
  return times;
}

}  // namespace pdl
