#include "sim/plan/plan.hpp"

#include <algorithm>

#include "sim/spec/error.hpp"
#include "sim/spec/schedule.hpp"
#include "sim/spec/split.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kBytesPerActivation = 4;  // fp32; autocast too hands fp32 from stage to stage

TaskKind task_kind(OperationKind kind) {
  switch (kind) {
    case OperationKind::forward: return TaskKind::forward;
    case OperationKind::backward: return TaskKind::backward;
    case OperationKind::backward_input: return TaskKind::backward_input;
    case OperationKind::backward_weight: return TaskKind::backward_weight;
  }
  return TaskKind::forward;
}

std::vector<Stage> make_stages(const RunSpec& spec) {
  const std::vector<std::int64_t> layers = spread(static_cast<std::int64_t>(spec.model.layers.size()), spec.gpus);
  std::vector<Stage> stages;
  std::int32_t first = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const auto count = static_cast<std::int32_t>(layers[s]);
    stages.push_back({static_cast<std::int32_t>(s), first, count, 1, 1});
    first += count;
  }
  return stages;
}

/// Samples of each micro-batch. With synthetic costs every micro-batch costs the same, whatever its samples: as many
/// as asked for, their samples as even as can be.
std::vector<std::int64_t> make_microbatches(const RunSpec& spec, std::vector<std::string>& warnings) {
  if (spec.synthetic && spec.batch >= spec.microbatches) return spread(spec.batch, spec.microbatches);
  if (spec.synthetic) {
    throw InputError("batch", std::to_string(spec.batch) + " samples for " + std::to_string(spec.microbatches) + " micro-batches",
                     "at least one sample for every micro-batch");
  }
  std::vector<std::int64_t> rows = torch_chunk(spec.batch, spec.microbatches);
  if (static_cast<std::int64_t>(rows.size()) != spec.microbatches) {
    warnings.push_back(std::to_string(spec.batch) + " samples in " + std::to_string(spec.microbatches) +
                       " micro-batches: torch.chunk makes only " + std::to_string(rows.size()) + ", of " +
                       std::to_string(rows.front()) + (rows.size() > 1 ? " (last " + std::to_string(rows.back()) + ")" : "") + " samples");
  } else if (rows.back() != rows.front()) {
    warnings.push_back("micro-batches are not equal: " + std::to_string(rows.front()) + " samples, the last one " +
                       std::to_string(rows.back()));
  }
  return rows;
}

/// The tasks of one step, from the operations in their order.
class Planner {
 public:
  explicit Planner(Plan& plan)
      : plan_(plan),
        spec_(plan.spec),
        microbatches_(static_cast<std::int32_t>(plan.microbatch_rows.size())),
        stages_(static_cast<std::int32_t>(plan.stages.size())),
        started_(plan.stages.size(), false) {}

  /// One worker and one host thread a GPU: a task waits for the transfer that feeds it.
  TaskGraph one_worker_a_gpu(const Schedule& schedule) {
    const std::size_t cells = static_cast<std::size_t>(stages_) * static_cast<std::size_t>(microbatches_);
    feeds_forward_.assign(cells, kNone);
    feeds_backward_.assign(cells, kNone);
    needs_forward_.assign(cells, kNone);
    needs_backward_.assign(cells, kNone);
    builder_.reserve(4 * cells, 5 * cells);
    const ScheduleShape shape{stages_, 1, microbatches_};
    for (std::int32_t worker = 0; worker < stages_; ++worker) {
      const std::vector<Operation> order = schedule.order(shape, worker);
      count_live_microbatches(order);
      TaskId previous = kNone;
      for (const Operation& operation : order) previous = add_operation(operation, previous);
      add_optimizer(worker, static_cast<std::uint32_t>(worker));
    }
    join(feeds_forward_, needs_forward_);
    join(feeds_backward_, needs_backward_);
    return std::move(builder_).build(static_cast<std::uint32_t>(stages_), static_cast<std::uint32_t>(stages_));
  }

  /// One thread issues for all GPUs, in the order of the schedule's first worker: a forward runs through all stages
  /// before the next operation is issued, and so does a backward. A peer copy of PyTorch joins the compute streams of
  /// both GPUs (two-way barrier in at::native::copy_kernel_cuda, PyTorch 2.11), hence a group of two tasks.
  TaskGraph one_thread(const Schedule& schedule) {
    const ScheduleShape shape{stages_, 1, microbatches_};
    const std::vector<Operation> order = schedule.order(shape, 0);
    for (std::int32_t stage = 0; stage < stages_; ++stage) {
      std::vector<Operation> of_stage = order;
      for (Operation& operation : of_stage) operation.stage = stage;
      count_live_microbatches(of_stage);
    }
    for (const Operation& operation : order) {
      const bool forward = operation.kind == OperationKind::forward;
      for (std::int32_t i = 0; i < stages_; ++i) {
        const std::int32_t stage = forward ? i : stages_ - 1 - i;
        add_compute({operation.kind, stage, operation.microbatch}, 0);
        if (i + 1 < stages_) add_joined_copy(stage, forward ? stage + 1 : stage - 1, operation.microbatch);
      }
    }
    for (std::int32_t worker = 0; worker < stages_; ++worker) add_optimizer(worker, 0);
    return std::move(builder_).build(static_cast<std::uint32_t>(stages_), 1);
  }

 private:
  std::size_t cell(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(microbatches_) +
           static_cast<std::size_t>(microbatch);
  }

  std::uint32_t stream(std::int32_t worker, StreamRole role) const {
    return static_cast<std::uint32_t>(worker) * kStreamsPerWorker + static_cast<std::uint32_t>(role);
  }

  Implementation implementation() const {
    return spec_.workers == Workers::one ? Implementation::autograd : Implementation::pipeline;
  }

  void count_live_microbatches(const std::vector<Operation>& order) {
    std::int32_t live = 0;
    for (const Operation& operation : order) {
      Stage& stage = plan_.stages[static_cast<std::size_t>(operation.stage)];
      if (operation.kind == OperationKind::forward) stage.live_microbatches = std::max(stage.live_microbatches, ++live);
      if (operation.kind == OperationKind::backward || operation.kind == OperationKind::backward_weight) --live;
      stage.slots = std::min(microbatches_, stage.live_microbatches + (operation.stage > 0 ? 1 : 0));
    }
  }

  TaskId add_compute(const Operation& operation, std::uint32_t host) {
    const Stage& stage = plan_.stages[static_cast<std::size_t>(operation.stage)];
    Work work;
    work.kind = task_kind(operation.kind);
    work.implementation = implementation();
    work.first_layer = stage.first_layer;
    work.layer_count = stage.layer_count;
    work.rows = plan_.microbatch_rows[static_cast<std::size_t>(operation.microbatch)];
    const bool whole_or_input =
        operation.kind == OperationKind::backward || operation.kind == OperationKind::backward_input;
    work.loss = whole_or_input && operation.stage == stages_ - 1;
    work.input_gradient = !(whole_or_input && operation.stage == 0);
    if (operation.kind == OperationKind::backward || operation.kind == OperationKind::backward_weight) {
      work.accumulate = started_[static_cast<std::size_t>(operation.stage)];
      started_[static_cast<std::size_t>(operation.stage)] = true;
    }
    return builder_.add_task({builder_.add_work(work), stream(stage.worker, StreamRole::compute), host, kNone, stage.worker,
                              operation.stage, operation.microbatch, work.kind});
  }

  void add_optimizer(std::int32_t worker, std::uint32_t host) {
    Work work;
    work.kind = TaskKind::optimizer;
    work.implementation = implementation();
    work.first_layer = plan_.stages[static_cast<std::size_t>(worker)].first_layer;
    work.layer_count = plan_.stages[static_cast<std::size_t>(worker)].layer_count;
    builder_.add_task({builder_.add_work(work), stream(worker, StreamRole::compute), host, kNone, worker, worker, -1, work.kind});
  }

  std::uint32_t transfer_work(TaskKind kind, std::int32_t from_stage, std::int32_t to_stage, std::int32_t microbatch) {
    const std::int64_t width =
        spec_.model.layers[static_cast<std::size_t>(plan_.stages[static_cast<std::size_t>(std::max(from_stage, to_stage))].first_layer)]
            .in_features;
    Work work;
    work.kind = kind;
    work.implementation = implementation();
    work.from_worker = plan_.stages[static_cast<std::size_t>(from_stage)].worker;
    work.to_worker = plan_.stages[static_cast<std::size_t>(to_stage)].worker;
    work.rows = plan_.microbatch_rows[static_cast<std::size_t>(microbatch)];
    work.bytes = work.rows * width * kBytesPerActivation;
    return builder_.add_work(work);
  }

  /// The receive (if the transport has one), the operation, and the send of its result. Returns the operation's task.
  TaskId add_operation(const Operation& operation, TaskId previous) {
    const auto [kind, stage, microbatch] = operation;
    const bool forward = kind == OperationKind::forward;
    const auto host = static_cast<std::uint32_t>(plan_.stages[static_cast<std::size_t>(stage)].worker);
    const bool gives_input_gradient = kind == OperationKind::backward || kind == OperationKind::backward_input;
    const std::int32_t source = forward ? stage - 1 : stage + 1;
    const std::int32_t target = forward ? stage + 1 : stage - 1;
    const bool receives = (forward || gives_input_gradient) && source >= 0 && source < stages_;
    const bool sends = (forward || gives_input_gradient) && target >= 0 && target < stages_;

    TaskId received = kNone;
    if (receives && spec_.p2p == PointToPoint::rendezvous) {
      received = add_transfer(forward ? TaskKind::receive_forward : TaskKind::receive_backward, source, stage, microbatch, host);
      if (previous != kNone) builder_.add_edge(previous, received);
    }
    const TaskId task = add_compute(operation, host);
    if (received != kNone) {
      builder_.add_edge(received, task);
    } else if (receives) {
      (forward ? needs_forward_ : needs_backward_)[cell(stage, microbatch)] = task;
    }
    if (sends) {
      const TaskId sent = add_transfer(forward ? TaskKind::send_forward : TaskKind::send_backward, stage, target, microbatch, host);
      builder_.add_edge(task, sent);
      (forward ? feeds_forward_ : feeds_backward_)[cell(target, microbatch)] = sent;
    }
    return task;
  }

  TaskId add_transfer(TaskKind kind, std::int32_t from_stage, std::int32_t to_stage, std::int32_t microbatch,
                      std::uint32_t host) {
    const bool forward = kind == TaskKind::send_forward || kind == TaskKind::receive_forward;
    const bool sends = kind == TaskKind::send_forward || kind == TaskKind::send_backward;
    const std::int32_t stage = sends ? from_stage : to_stage;
    const std::int32_t worker = plan_.stages[static_cast<std::size_t>(stage)].worker;
    const StreamRole role = sends ? (forward ? StreamRole::send_forward : StreamRole::send_backward)
                                  : (forward ? StreamRole::receive_forward : StreamRole::receive_backward);
    const bool pure_delay = spec_.synthetic && spec_.p2p == PointToPoint::eager;
    std::uint32_t group = kNone;
    if (spec_.p2p == PointToPoint::rendezvous) {
      // The boundary below the higher stage, the micro-batch and the direction name the pair.
      std::vector<std::uint32_t>& groups = forward ? groups_forward_ : groups_backward_;
      groups.resize(static_cast<std::size_t>(stages_) * static_cast<std::size_t>(microbatches_), kNone);
      std::uint32_t& of_pair = groups[cell(std::max(from_stage, to_stage), microbatch)];
      if (of_pair == kNone) of_pair = builder_.add_group();
      group = of_pair;
    }
    return builder_.add_task({transfer_work(kind, from_stage, to_stage, microbatch), pure_delay ? kNone : stream(worker, role),
                              host, group, worker, stage, microbatch, kind});
  }

  void add_joined_copy(std::int32_t from_stage, std::int32_t to_stage, std::int32_t microbatch) {
    const bool forward = to_stage > from_stage;
    const std::uint32_t group = builder_.add_group();
    const auto add = [&](TaskKind kind, std::int32_t stage) {
      const std::int32_t worker = plan_.stages[static_cast<std::size_t>(stage)].worker;
      builder_.add_task({transfer_work(kind, from_stage, to_stage, microbatch), stream(worker, StreamRole::compute), 0, group,
                         worker, stage, microbatch, kind});
    };
    add(forward ? TaskKind::send_forward : TaskKind::send_backward, from_stage);
    add(forward ? TaskKind::receive_forward : TaskKind::receive_backward, to_stage);
  }

  void join(const std::vector<TaskId>& feeds, const std::vector<TaskId>& needs) {
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      if (feeds[i] != kNone && needs[i] != kNone) builder_.add_edge(feeds[i], needs[i]);
    }
  }

  Plan& plan_;
  const RunSpec& spec_;
  std::int32_t microbatches_;
  std::int32_t stages_;
  std::vector<bool> started_;  // by stage: gradients have been written in this step
  TaskGraphBuilder builder_;
  // By stage and micro-batch: the transfer that brings the input, the task that needs it, the pair's group.
  std::vector<TaskId> feeds_forward_, feeds_backward_, needs_forward_, needs_backward_;
  std::vector<std::uint32_t> groups_forward_, groups_backward_;
};

}  // namespace

Plan make_plan(const RunSpec& spec) {
  Plan plan;
  plan.spec = spec;
  plan.stages = make_stages(spec);
  plan.microbatch_rows = make_microbatches(spec, plan.warnings);
  const Schedule& schedule = *find_schedule(spec.schedule);
  Planner planner(plan);
  plan.graph = spec.workers == Workers::one ? planner.one_thread(schedule) : planner.one_worker_a_gpu(schedule);
  return plan;
}

}  // namespace pdl
