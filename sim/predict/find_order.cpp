#include "sim/predict/find_order.hpp"

#include <algorithm>
#include <set>

#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/predict/auto_schedule.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/step_of_plan.hpp"

namespace pdl {
namespace {

RunSpec with_order(const RunSpec& spec, const CandidateOrder& candidate) {
  auto file = std::make_shared<ScheduleFile>();
  file->order = candidate.order;
  RunSpec with = spec;
  with.overlap_steps = candidate.steps_overlap;
  with.chunks = candidate.order.shape.chunks;
  with.microbatches = candidate.order.shape.microbatches;  // torch.chunk may make fewer than asked for
  with.schedule_file = std::move(file);
  return with;
}

class Search {
 public:
  Search(const RunSpec& spec, LayerFamilies* families, std::optional<std::int64_t> memory_limit_bytes)
      : spec_(spec), families_(families), memory_limit_bytes_(memory_limit_bytes) {
    if (!memory_limit_bytes && families && families->profile().host_description.memory_capacity_bytes > 0) {
      memory_limit_bytes_ = families->profile().host_description.memory_capacity_bytes;
    }
    microbatches_ = static_cast<std::int32_t>(microbatch_rows(spec).size());
  }

  RunSpec find() {
    const auto found = search_order(named_orders(), spaces(), spec_.overlap_steps.value_or(false),
                                    [&](const CandidateOrder& candidate) { return judge(candidate); });
    if (!found) {
      throw OutOfMemory("out of memory: no schedule of " + std::to_string(spec_.microbatches) + " micro-batches on " +
                            std::to_string(spec_.gpus) + " GPUs needs at most " +
                            binary_bytes(memory_limit_bytes_.value_or(0)) + "; the least needs " +
                            binary_bytes(least_memory_bytes_),
                        least_memory_bytes_);
    }
    RunSpec with = with_order(spec_, found->best);
    auto file = std::make_shared<ScheduleFile>(*with.schedule_file);
    file->warnings.push_back(describe(*found));
    if (found->best.steps_overlap) {
      file->warnings.push_back(
          "this schedule counts on steps that overlap, without a barrier at the optimizer: with its CSV file too say "
          "--overlap-steps (--overlap-steps 0: the best schedule with a barrier)");
    }
    with.schedule_file = std::move(file);
    return with;
  }

 private:
  /// More chunks than one are tried where there are layers for them, unless --chunks says how many. Synthetic costs are
  /// those of a stage, so that more stages would be more work: as many as --chunks says. As a split has numbers for.
  bool wanted(std::int32_t chunks) const {
    const bool may_choose = spec_.chunks == 1 && !spec_.synthetic && spec_.split.layers.empty();
    const auto blocks = blocks_of(spec_.model);
    return spec_.gpus * chunks <= (blocks ? blocks->count : std::ssize(spec_.model.layers)) &&
           (may_choose || spec_.chunks == chunks);
  }

  std::vector<CandidateOrder> named_orders() const {
    std::vector<CandidateOrder> named;
    for (const Schedule& schedule : schedules()) {
      const std::int32_t chunks =
          std::clamp(static_cast<std::int32_t>(spec_.chunks), schedule.least_chunks, schedule.most_chunks);
      for (const std::int32_t v : std::set{chunks, schedule.default_chunks}) {
        const ScheduleShape shape{static_cast<std::int32_t>(spec_.gpus), v, microbatches_};
        if (!wanted(v) || !schedule.takes(shape)) continue;
        const std::string chunks_said = v == schedule.default_chunks ? "" : " --chunks " + std::to_string(v);
        named.push_back({std::string(schedule.name) + chunks_said, make_order(schedule, shape),
                         spec_.overlap_steps.value_or(schedule.steps_overlap)});
      }
    }
    return named;
  }

  std::vector<SearchSpace> spaces() const {
    std::vector<SearchSpace> spaces;
    const auto add = [&](Placement placement, std::int32_t chunks) {
      if (wanted(chunks)) spaces.push_back(space(placement, chunks));
    };
    add(Placement::loop, static_cast<std::int32_t>(spec_.chunks));
    if (spec_.gpus > 1) add(Placement::v, 2);
    return spaces;
  }

  SearchSpace space(Placement placement, std::int32_t chunks) const {
    const ScheduleShape shape{static_cast<std::int32_t>(spec_.gpus), chunks, microbatches_};
    SearchSpace space{placement, shape, {std::vector<StageCosts>(static_cast<std::size_t>(shape.stages())), 0}};
    for (const bool split : {false, true}) read_costs(every_stage(placement, shape, split), space.costs);
    return space;
  }

  /// Forward and backward of every stage and micro-batch, in an order that always runs.
  static PipelineOrder every_stage(Placement placement, const ScheduleShape& shape, bool split) {
    PipelineOrder order{placement, shape, {}};
    for (std::int32_t w = 0; w < shape.workers; ++w) {
      std::vector<Operation>& operations = order.workers.emplace_back();
      for (std::int32_t v = 0; v < shape.chunks; ++v) {
        for (std::int32_t m = 0; m < shape.microbatches; ++m) {
          operations.push_back({OperationKind::forward, stage_of_chunk(placement, shape.workers, w, v), m});
        }
      }
      for (std::int32_t v = shape.chunks; v-- > 0;) {
        for (std::int32_t m = 0; m < shape.microbatches; ++m) {
          const std::int32_t stage = stage_of_chunk(placement, shape.workers, w, v);
          if (!split) operations.push_back({OperationKind::backward, stage, m});
          if (split) operations.push_back({OperationKind::backward_input, stage, m});
          if (split) operations.push_back({OperationKind::backward_weight, stage, m});
        }
      }
    }
    return order;
  }

  /// Of a micro-batch in the middle: the first one starts the gradients, the last one may be smaller.
  void read_costs(const PipelineOrder& order, OrderCosts& costs) const {
    const Plan plan = make_plan(with_order(spec_, {"", order, false}));
    const PricedWork priced = price_at_full_clock(plan, families_);  // its bubbles are those of no candidate
    const std::int32_t typical = microbatches_ / 2;
    for (const Task& task : plan.graph.tasks) {
      if (task.microbatch != typical) continue;
      const TaskCost& cost = priced.costs[task.work];
      const std::int64_t ns = std::max(cost.device_ns, cost.issue_ns);
      StageCosts& stage = costs.stages[static_cast<std::size_t>(task.stage)];
      switch (task.kind) {
        case TaskKind::forward: stage.forward_ns = ns; break;
        case TaskKind::backward: stage.backward_ns = ns; break;
        case TaskKind::backward_input: stage.input_ns = ns; break;
        case TaskKind::backward_weight: stage.weight_ns = ns; break;
        case TaskKind::send_forward:
        case TaskKind::send_backward: costs.transfer_ns = std::max(costs.transfer_ns, ns); break;
        default: break;
      }
    }
  }

  std::optional<std::int64_t> judge(const CandidateOrder& candidate) {
    try {
      const RunSpec spec = with_order(spec_, candidate);
      const StepOfPlan step = step_of_plan(make_plan(spec), families_);
      const std::int64_t bytes = *std::max_element(step.peak_memory_bytes.begin(), step.peak_memory_bytes.end());
      least_memory_bytes_ = least_memory_bytes_ == 0 ? bytes : std::min(least_memory_bytes_, bytes);
      if (memory_limit_bytes_ && bytes > *memory_limit_bytes_) return std::nullopt;
      return step_ns(step.timeline, candidate.steps_overlap);
    } catch (const CannotRun&) {
      return std::nullopt;  // a deadlock
    }
  }

  static std::string describe(const FoundOrder& found) {
    std::string text = "auto: " + found.best.name + ", " + std::to_string(found.best.order.shape.chunks) +
                       (found.best.order.shape.chunks == 1 ? " chunk" : " chunks") + " a GPU; the best of " +
                       grouped(found.tried) + " schedules";
    if (found.best_named_ns) {
      text += "; the best named one is " + found.best_named.name + " with " +
              fixed(static_cast<double>(*found.best_named_ns) / 1e6, 3) + " ms";
    }
    return text;
  }

  const RunSpec& spec_;
  LayerFamilies* families_;
  std::optional<std::int64_t> memory_limit_bytes_;
  std::int32_t microbatches_ = 1;
  std::int64_t least_memory_bytes_ = 0;
};

}  // namespace

bool needs_search(const RunSpec& spec) {
  return spec.schedule == kAutoSchedule && !spec.schedule_file;
}

RunSpec with_found_order(const RunSpec& spec, LayerFamilies* families, std::optional<std::int64_t> memory_limit_bytes) {
  if (spec.dp == 1 && spec.accum == 1) return Search(spec, families, memory_limit_bytes).find();
  // An order is that of one replica in one round.
  RunSpec one = spec;
  one.gpus = resolve(spec).mesh.pp;
  one.batch = spec.batch / spec.dp;
  one.dp = one.accum = 1;
  one.straggler.reset();
  one.overlap_steps = spec.overlap_steps.value_or(false);
  const RunSpec found = Search(one, families, memory_limit_bytes).find();
  RunSpec all = spec;
  all.schedule_file = found.schedule_file;
  all.chunks = found.chunks;
  all.microbatches = found.microbatches;
  all.overlap_steps = found.overlap_steps;
  return all;
}

}  // namespace pdl
