// Plans of many specs, one after another. Steps that differ only in batch or width have the same tasks, edges, orders
// and buffers: the graph is made once for them, and only the rows and bytes of its works are set anew.
//
//   PlanMaker plans;                                                  // one a thread
//   const Plan& first = plans.plan(parse_run_spec(dim 1024)).plan;    // made
//   const Plan& second = plans.plan(parse_run_spec(dim 1028)).plan;   // the same graph, other sizes
//
// The same as make_plan() for every spec; where that has no such shortcut (other programs than a pipeline, layers that
// are not all alike) it is that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "sim/engine/repeated_runs.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// A plan whose graph may serve other plans after it.
struct MadePlan {
  Plan plan;
  /// Of its graph, from the second plan on that it serves; nothing: run_graph() is as fast.
  std::optional<RepeatedRuns> runs = std::nullopt;
};

class PlanMaker {
 public:
  /// Valid until the next one is asked for. Throws as make_plan().
  const MadePlan& plan(RunSpec spec);

 private:
  /// A task of each work, whose place says what its sizes are.
  struct Place {
    std::int32_t stage = -1;  // -1: no task has it
    std::int32_t microbatch = -1;
  };

  struct Shape {
    MadePlan made;              // the last one of it
    RunSpec spec;               // without sizes
    std::vector<Place> places;  // by work
  };

  static bool is_of(const Shape& shape, Plan& begun);
  static void set_sizes(Shape& shape, Plan begun);
  void keep(Shape shape);

  MadePlan unshared_;        // the last one of a graph that serves no other plan
  std::list<Shape> shapes_;  // the one used last is the first
  std::size_t tasks_ = 0;    // of all of them
};

}  // namespace pdl
