#include "sim/predict/step_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/cost/host_calls.hpp"
#include "sim/io/error.hpp"
#include "sim/memory/allocated_tensors.hpp"
#include "sim/predict/auto_split.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/step_of_plan.hpp"

namespace pdl {
namespace {

/// What an order's backwards may be.
enum class Backwards { whole, split_or_whole };

Backwards backwards_of(const RunSpec& spec) {
  const Schedule* schedule = named_schedule(spec);
  return schedule && !schedule->splits_backward ? Backwards::whole : Backwards::split_or_whole;
}

/// The order of every GPU begins with a forward of its first stage.
bool fills(const RunSpec& spec) {
  return named_schedule(spec) && !steps_overlap(spec);
}

/// And ends with the whole backward of that stage.
bool drains(const RunSpec& spec) {
  return fills(spec) && backwards_of(spec) == Backwards::whole;
}

/// No order yet, nor chunks; or no layers of the stages.
bool is_searched(const RunSpec& spec) {
  return (spec.schedule == kAutoSchedule && !spec.schedule_file) || needs_split(spec);
}

/// Where single layers are run again, it is not all of their forwards: nothing is counted.
bool runs_stages_again(const RunSpec& spec) {
  return spec.recompute && resolve(spec).program == Program::pipeline;
}

bool has_bound(const RunSpec& spec) {
  return !is_data_parallel(spec) && !is_searched(spec);
}

Placement placement_of(const RunSpec& spec) {
  if (spec.schedule_file) return spec.schedule_file->order.placement;
  return find_schedule(spec.schedule)->placement;
}

/// Of the first replica; all are alike.
std::vector<Stage> stages_of(const RunSpec& spec) {
  Mesh mesh = resolve(spec).mesh;
  mesh.dp = 1;
  return make_stages(spec, mesh, is_data_parallel(spec) ? Placement::loop : placement_of(spec));
}

/// Samples of a micro-batch -> how many there are of them in a step.
std::map<std::int64_t, std::int64_t> microbatches_by_rows(const RunSpec& spec) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t rows : microbatch_rows(spec)) counts[rows] += spec.accum;
  return counts;
}

/// One operation of one stage.
Work piece(const RunSpec& spec, const std::vector<Stage>& stages, std::size_t stage, TaskKind kind, std::int64_t rows,
           bool accumulate) {
  const bool gives_input = kind == TaskKind::backward || kind == TaskKind::backward_input;
  Work work;
  work.kind = kind;
  const Program program = resolve(spec).program;
  const bool layers = is_compute(kind);
  work.implementation = layers ? implementation_of_layers(program, spec.dtype) : implementation_of(program);
  work.casts_are_there = kind == TaskKind::forward && program == Program::pipeline && is_amp(spec.dtype);
  work.first_layer = stages[stage].first_layer;
  work.layer_count = stages[stage].layer_count;
  work.rows = rows;
  work.loss = gives_input && is_last_stage(stages, stage);
  work.input_gradient = !(gives_input && is_first_stage(stages, stage));
  work.accumulate = accumulate;
  return work;
}

/// All pieces that bounds of the spec ask for.
std::vector<Work> pieces_of(const RunSpec& spec) {
  std::vector<Work> pieces;
  const std::vector<Stage> stages = stages_of(spec);
  const bool split = backwards_of(spec) == Backwards::split_or_whole;
  const std::map<std::int64_t, std::int64_t> counts = microbatches_by_rows(spec);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const auto& by_rows : counts) {
      const std::int64_t rows = by_rows.first;  // clang 14 captures no structured binding
      const auto add = [&](TaskKind kind, bool accumulate) {
        pieces.push_back(piece(spec, stages, s, kind, rows, accumulate));
      };
      add(TaskKind::forward, false);
      if (split) add(TaskKind::backward_input, false);
      for (const bool accumulate : {false, true}) {
        add(TaskKind::backward, accumulate);
        if (split) add(TaskKind::backward_weight, accumulate);
      }
    }
    pieces.push_back(piece(spec, stages, s, TaskKind::optimizer, 0, false));
  }
  return pieces;
}

/// A plan of works alone, without tasks.
Plan plan_of_works(const RunSpec& spec, std::vector<Work> works) {
  Plan plan;
  plan.spec = spec;
  plan.parallel = resolve(spec);
  plan.stages = stages_of(spec);
  plan.graph.works = std::move(works);
  plan.graph.workers = static_cast<std::uint32_t>(spec.gpus);
  plan.graph.hosts = plan.graph.workers;
  return plan;
}

/// Beside a collective a kernel may lose the nanoseconds that its blocks do not share evenly: less than one for each
/// block of a multiprocessor, which takes at least 100 ns.
StepBound beside_collectives(StepBound bound) {
  for (std::int64_t* ns : {&bound.compute_ns, &bound.step_ns}) *ns -= *ns / 100;
  return bound;
}

/// The same, of a work whose kernels are known, to the nanosecond.
std::int64_t lost_beside_collectives_ns(const std::vector<KernelCost>& kernels, std::int64_t multiprocessors) {
  std::int64_t lost_ns = 0;
  for (const KernelCost& kernel : kernels)
    lost_ns += kernel.blocks / multiprocessors + std::max<std::int64_t>(kernel.blocks_per_multiprocessor, 1);
  return lost_ns;
}

/// As short as the works can be, with nothing beside them, and by hosts that do not pause.
PricedWork at_fixed_rates(const Plan& plan, PricedWork priced) {
  if (priced.shared.count > 0) {
    for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
      const std::int64_t lost_ns = lost_beside_collectives_ns(priced.shared.kernels[w], priced.shared.count);
      for (std::int64_t* ns : {&priced.costs[w].device_ns, &priced.costs[w].span_ns})
        *ns = std::max<std::int64_t>(0, *ns - lost_ns);
    }
  }
  priced.shared = {};
  priced.pauses = {};
  return priced;
}

/// Of the GPU with most.
std::int64_t most_compute_ns(const Plan& plan, const PricedWork& priced) {
  std::vector<std::int64_t> compute_ns(plan.graph.workers, 0);
  for (const Task& task : plan.graph.tasks) {
    if (is_compute(task.kind) || task.kind == TaskKind::optimizer)
      compute_ns[static_cast<std::size_t>(task.worker)] += priced.costs[task.work].device_ns;
  }
  return *std::max_element(compute_ns.begin(), compute_ns.end());
}

}  // namespace

/// At least, in nanoseconds.
struct StepBounds::StageTimes {
  std::int64_t microbatches_ns = 0;  // all of a step
  std::int64_t recomputed_ns = 0;    // of these: forwards that are run again, beside what other GPUs do
  std::int64_t optimizer_ns = 0;
  std::int64_t forward_ns = 0, backward_ns = 0;  // of one micro-batch, the shortest
};

StepBounds::Prices& StepBounds::prices_of(const RunSpec& spec) {
  const Context context{implementation_of(resolve(spec).program), spec.dtype,
                        spec.synthetic ? stage_count(spec) : std::int64_t{0}};
  const auto [found, added] = prices_.try_emplace(context);
  if (added) found->second.spec = spec;
  return found->second;
}

void StepBounds::will_ask(const RunSpec& spec) {
  if (!has_bound(spec)) return;
  Prices& prices = prices_of(spec);
  for (const Work& work : pieces_of(spec)) {
    if (prices.ns.try_emplace(work, kNoPrice).second) prices.asked.push_back(work);
  }
}

/// Kind by kind: where a profile lacks one, the others have their prices.
void StepBounds::price_what_was_asked(Prices& prices) {
  std::map<TaskKind, std::vector<Work>> kinds;
  for (const Work& work : prices.asked) kinds[work.kind].push_back(work);
  prices.asked.clear();
  for (auto& [kind, works] : kinds) price_kind(prices, std::move(works));
}

void StepBounds::price_kind(Prices& prices, std::vector<Work> works) {
  const Plan plan = plan_of_works(prices.spec, std::move(works));
  try {
    const PricedWork priced = price_at_full_clock(plan, families_);
    for (std::size_t w = 0; w < plan.graph.works.size(); ++w)
      prices.ns.at(plan.graph.works[w]) = priced.costs[w].device_ns;
    priced_pieces_ += std::ssize(plan.graph.works);
  } catch (const InputError&) {  // said by the prediction of what needs them
  }
}

StepBounds::StageTimes StepBounds::times_of_stage(const RunSpec& spec, const std::vector<Stage>& stages,
                                                  std::size_t stage, const std::map<std::int64_t, std::int64_t>& counts,
                                                  Prices& prices) const {
  const auto ns = [&](TaskKind kind, std::int64_t rows, bool accumulate) {
    return prices.ns.at(piece(spec, stages, stage, kind, rows, accumulate));
  };
  const bool split = backwards_of(spec) == Backwards::split_or_whole;
  const auto backward_ns = [&](std::int64_t rows, bool accumulate) {
    const std::int64_t whole_ns = ns(TaskKind::backward, rows, accumulate);
    if (!split) return whole_ns;
    return std::min(whole_ns,
                    ns(TaskKind::backward_input, rows, false) + ns(TaskKind::backward_weight, rows, accumulate));
  };
  StageTimes times;
  times.optimizer_ns = ns(TaskKind::optimizer, 0, false);
  times.forward_ns = times.backward_ns = std::numeric_limits<std::int64_t>::max();
  // One micro-batch of the step adds to nothing; which one it is depends on the order.
  std::int64_t first_saves_ns = 0;
  for (const auto& [rows, count] : counts) {
    const std::int64_t forward_ns = ns(TaskKind::forward, rows, false);
    const std::int64_t adding_ns = backward_ns(rows, true), fresh_ns = backward_ns(rows, false);
    if (runs_stages_again(spec)) times.recomputed_ns += count * forward_ns;
    times.microbatches_ns += count * (forward_ns + adding_ns);
    first_saves_ns = std::max(first_saves_ns, adding_ns - fresh_ns);
    times.forward_ns = std::min(times.forward_ns, forward_ns);
    times.backward_ns = std::min({times.backward_ns, adding_ns, fresh_ns});
  }
  times.microbatches_ns += times.recomputed_ns - first_saves_ns;
  return times;
}

StepBound StepBounds::of(const RunSpec& spec) {
  if (!has_bound(spec)) return {};
  will_ask(spec);
  Prices& prices = prices_of(spec);
  price_what_was_asked(prices);
  for (const Work& work : pieces_of(spec)) {
    if (prices.ns.at(work) == kNoPrice) return {};
  }
  const std::vector<Stage> stages = stages_of(spec);
  const std::map<std::int64_t, std::int64_t> counts = microbatches_by_rows(spec);
  const auto workers = static_cast<std::size_t>(pipeline_workers(spec));
  std::vector<std::int64_t> work_ns(workers, 0), optimizer_ns(workers, 0);
  std::int64_t in_turn_ns = 0;
  std::vector<StageTimes> times;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    times.push_back(times_of_stage(spec, stages, s, counts, prices));
    const auto worker = static_cast<std::size_t>(only_worker(stages[s]));
    work_ns[worker] += times.back().microbatches_ns;
    in_turn_ns += times.back().microbatches_ns - times.back().recomputed_ns;
    optimizer_ns[worker] += times.back().optimizer_ns;
  }
  StepBound bound;
  std::int64_t fill_ns = 0, drain_ns = 0;
  for (std::size_t w = 0; w < workers; ++w) {
    bound.compute_ns = std::max(bound.compute_ns, work_ns[w] + optimizer_ns[w]);
    // After the last backward of this GPU those before it have one more each, then GPU 0 its optimizer.
    const std::int64_t after_ns = std::max(optimizer_ns[w], w > 0 && drains(spec) ? drain_ns + optimizer_ns[0] : 0);
    if (fills(spec)) bound.step_ns = std::max(bound.step_ns, fill_ns + work_ns[w] + after_ns);
    fill_ns += times[w].forward_ns;  // stage w is the first of GPU w
    drain_ns += times[w].backward_ns;
  }
  if (spec.schedule == "naive" && drains(spec)) bound.step_ns = std::max(bound.step_ns, in_turn_ns);
  bound.step_ns = std::max(bound.step_ns, bound.compute_ns);
  return spec.dp > 1 ? beside_collectives(bound) : bound;
}

double ReplicaBound::host_share() const {
  return step_ns > 0 ? 1 - static_cast<double>(without_host_ns) / static_cast<double>(step_ns) : 0;
}

ReplicaBound bound_of_first_replica(const RunSpec& planned, LayerFamilies* families) {
  const Plan plan = make_plan_of_first_replica(planned);
  const PricedWork priced = at_fixed_rates(plan, price_at_full_clock(plan, families));
  ReplicaBound bound;
  bound.compute_ns = most_compute_ns(plan, priced);
  if (steps_overlap(planned)) {
    bound.step_ns = bound.without_host_ns = bound.compute_ns;
    return bound;
  }
  LengthOfRun without_host;
  for (const TaskCost& cost : priced.costs) without_host.device_ns.push_back(cost.device_ns);
  bound.step_ns = run_plan(plan, priced, &without_host).step_ns;
  bound.without_host_ns = without_host.last_end_ns;
  if (has_work(plan, TaskKind::sleep))  // which is no share of a host
    bound.without_host_ns = std::llround(static_cast<double>(bound.step_ns) * (1 - slow_host(plan, priced).share));
  return bound;
}

std::int64_t least_memory_bytes(const RunSpec& spec) {
  if (is_searched(spec)) return 0;
  Plan plan;
  plan.spec = spec;
  plan.parallel = resolve(spec);
  plan.stages = stages_of(spec);
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(spec.gpus), 0);
  for (const Stage& stage : plan.stages)
    bytes[static_cast<std::size_t>(only_worker(stage))] +=
        parameter_bytes(plan, stage, 2) + optimizer_bytes(plan, stage);
  return *std::max_element(bytes.begin(), bytes.end());
}

}  // namespace pdl
