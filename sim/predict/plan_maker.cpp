#include "sim/predict/plan_maker.hpp"

#include <algorithm>
#include <utility>

#include "sim/plan/begin_plan.hpp"
#include "sim/plan/buffers.hpp"
#include "sim/plan/work_sizes.hpp"

namespace pdl {
namespace {

constexpr std::size_t kMostTasksKept = 1'000'000;  // some hundred MB
constexpr std::size_t kMostShapesKept = 64;        // so that looking through them takes less time than a plan

/// What does not decide the graph, put aside: batch, width, and what has been made of them.
struct Sizes {
  explicit Sizes(RunSpec& spec)
      : model(std::exchange(spec.model, {})), dim(std::exchange(spec.dim, 0)), batch(std::exchange(spec.batch, 0)) {}
  void give_back(RunSpec& spec) && {
    spec.model = std::move(model);
    spec.dim = dim;
    spec.batch = batch;
  }

  Model model;
  std::int64_t dim, batch;
};

/// Then what is equal in two works of the step does not depend on the width.
bool layers_are_alike(const Model& model) {
  const Layer& first = model.layers.front();
  return input_numbers(first) == output_numbers(first) &&
         std::all_of(model.layers.begin(), model.layers.end(), [&](const Layer& layer) { return layer == first; });
}

/// Of layers that are alike in each of them.
bool have_like_layers(const Model& a, const Model& b) {
  return a.layers.size() == b.layers.size() && a.layers.front().kind == b.layers.front().kind;
}

/// A schedule that is a file is read for each spec, and no two specs have the same one.
bool may_share(const Plan& begun) {
  return begun.parallel.program == Program::pipeline && !begun.spec.schedule_file && layers_are_alike(begun.spec.model);
}

/// Micro-batches that have as many samples as the one before are the same ones: works are equal where rows are. Rows
/// fall within a round, and rounds are alike.
bool have_like_rows(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t m = 1; m < a.size(); ++m) {
    if ((a[m] == a[m - 1]) != (b[m] == b[m - 1])) return false;
  }
  return true;
}

}  // namespace

const MadePlan& PlanMaker::plan(RunSpec spec) {
  Plan begun = begin_plan(std::move(spec));
  if (!may_share(begun)) return unshared_ = {finish_plan(std::move(begun))};
  const auto shape = std::find_if(shapes_.begin(), shapes_.end(), [&](const Shape& s) { return is_of(s, begun); });
  if (shape != shapes_.end()) {
    shapes_.splice(shapes_.begin(), shapes_, shape);
    set_sizes(shapes_.front(), std::move(begun));
    return shapes_.front().made;
  }
  MadePlan made{finish_plan(std::move(begun))};
  if (made.plan.graph.tasks.size() > kMostTasksKept) return unshared_ = std::move(made);
  keep({std::move(made), {}, {}});
  return shapes_.front().made;
}

bool PlanMaker::is_of(const Shape& shape, Plan& begun) {
  const Plan& plan = shape.made.plan;
  if (!have_like_rows(begun.microbatch_rows, plan.microbatch_rows)) return false;
  if (!have_like_layers(begun.spec.model, plan.spec.model)) return false;
  Sizes sizes(begun.spec);
  const bool same = begun.spec == shape.spec;
  std::move(sizes).give_back(begun.spec);
  return same;
}

void PlanMaker::set_sizes(Shape& shape, Plan begun) {
  Plan& plan = shape.made.plan;
  begun.stages = std::move(plan.stages);
  begun.slots = std::move(plan.slots);
  begun.graph = std::move(plan.graph);
  plan = std::move(begun);
  if (!shape.made.runs) shape.made.runs.emplace(plan.graph);
  say_warnings_of_schedule(plan);
  count_live_activations(plan, order_of(plan));
  const WorkSizes sizes(plan);
  for (std::size_t w = 0; w < shape.places.size(); ++w)
    sizes.set(shape.places[w].stage, shape.places[w].microbatch, plan.graph.works[w]);
}

void PlanMaker::keep(Shape shape) {
  const Plan& plan = shape.made.plan;
  shape.spec = plan.spec;
  const Sizes put_aside(shape.spec);
  shape.places.resize(plan.graph.works.size());
  for (const Task& task : plan.graph.tasks) {
    Place& place = shape.places[task.work];
    if (place.stage < 0) place = {task.stage, task.microbatch};
  }
  tasks_ += plan.graph.tasks.size();
  shapes_.push_front(std::move(shape));
  for (; tasks_ > kMostTasksKept || shapes_.size() > kMostShapesKept; shapes_.pop_back())
    tasks_ -= shapes_.back().made.plan.graph.tasks.size();
}

}  // namespace pdl
