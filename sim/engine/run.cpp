#include "sim/engine/run.hpp"

#include <algorithm>

#include "sim/engine/fixed_rates.hpp"
#include "sim/engine/order.hpp"
#include "sim/engine/shared_rates.hpp"
#include "sim/io/large_array.hpp"

namespace pdl {
namespace {

bool is_shared(const RunConditions& conditions) {
  return conditions.shared && conditions.shared->count > 0;
}

/// By task; empty where hosts take no time.
std::vector<std::int64_t> issue_of(const TaskGraph& graph, std::span<const TaskCost> costs,
                                   const RunConditions& conditions) {
  if (!hosts_matter(costs, conditions.delays_ns)) return {};
  return issue_times_ns(graph, costs, conditions.delays_ns);
}

void run_second(const TaskGraph& graph, LengthOfRun& second) {
  std::vector<Span> spans;
  const std::vector<TaskCost> free(graph.works.size());
  run_at_fixed_rates(graph, free, {}, spans, &second);
}

}  // namespace

std::vector<TaskTimes> run_graph(const TaskGraph& graph, std::span<const TaskCost> costs,
                                 const RunConditions& conditions) {
  const std::vector<std::int64_t> issue_ns = issue_of(graph, costs, conditions);
  if (is_shared(conditions)) return run_at_shared_rates(graph, costs, *conditions.shared, issue_ns);
  std::vector<Span> spans;
  run_at_fixed_rates(graph, costs, issue_ns, spans, nullptr);
  std::vector<TaskTimes> times;
  reserve_large(times, spans.size());
  for (const Span& span : spans) times.push_back({span.start_ns, span.end_ns});
  return times;
}

std::int64_t run_graph(const TaskGraph& graph, std::span<const TaskCost> costs, const RunConditions& conditions,
                       std::vector<Span>& spans, LengthOfRun* second) {
  const std::vector<std::int64_t> issue_ns = issue_of(graph, costs, conditions);
  const bool in_one_pass = issue_ns.empty() && !is_shared(conditions);
  if (second && !in_one_pass) run_second(graph, *second);
  if (!is_shared(conditions)) return run_at_fixed_rates(graph, costs, issue_ns, spans, in_one_pass ? second : nullptr);
  const std::vector<TaskTimes> times = run_at_shared_rates(graph, costs, *conditions.shared, issue_ns);
  std::int64_t last_end_ns = 0;
  spans.clear();
  for (std::size_t task = 0; task < times.size(); ++task) {
    spans.push_back(span_of(graph.tasks[task], times[task]));
    last_end_ns = std::max(last_end_ns, times[task].end_ns);
  }
  return last_end_ns;
}

}  // namespace pdl
