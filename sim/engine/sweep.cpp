#include <algorithm>
#include <boost/graph/topological_sort.hpp>

#include "sim/engine/constraints.hpp"
#include "sim/engine/deadlock.hpp"
#include "sim/engine/run.hpp"

namespace pdl {

std::vector<TaskTimes> sweep_graph(const TaskGraph& graph, std::span<const TaskCost> costs,
                                   std::span<const std::int64_t> delays_ns) {
  const Constraints constraints = make_constraints(graph, costs, delays_ns);
  using Moments = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, std::int64_t>;
  const Moments moments(boost::edges_are_unsorted_multi_pass, constraints.edges.begin(), constraints.edges.end(),
                        constraints.at_least_ns.begin(), constraints.moments);
  std::vector<Moments::vertex_descriptor> reverse_order;
  reverse_order.reserve(constraints.moments);
  try {
    boost::topological_sort(moments, std::back_inserter(reverse_order));
  } catch (const boost::not_a_dag&) {
    throw_deadlock(graph);
  }
  std::vector<std::int64_t> earliest_ns(constraints.moments, 0);
  for (auto moment = reverse_order.rbegin(); moment != reverse_order.rend(); ++moment) {
    for (auto [edge, end] = boost::out_edges(*moment, moments); edge != end; ++edge) {
      std::int64_t& after_ns = earliest_ns[boost::target(*edge, moments)];
      after_ns = std::max(after_ns, earliest_ns[*moment] + moments[*edge]);
    }
  }
  std::vector<TaskTimes> times(graph.tasks.size());
  for (TaskId task = 0; task < times.size(); ++task) {
    times[task] = {earliest_ns[start_moment(task)], earliest_ns[finish_moment(task)]};
  }
  return times;
}

}  // namespace pdl
