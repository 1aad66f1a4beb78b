#include "sim/plan/plan.hpp"

#include <algorithm>
#include <deque>
#include <stdexcept>

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
    case OperationKind::send_forward: return TaskKind::send_forward;
    case OperationKind::receive_forward: return TaskKind::receive_forward;
    case OperationKind::send_backward: return TaskKind::send_backward;
    case OperationKind::receive_backward: return TaskKind::receive_backward;
  }
  throw std::logic_error("an operation of no kind");
}

std::vector<Stage> make_stages(const RunSpec& spec, Placement placement) {
  const std::vector<std::int64_t> layers = spread(static_cast<std::int64_t>(spec.model.layers.size()), stage_count(spec));
  std::vector<Stage> stages;
  std::int32_t first = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const auto count = static_cast<std::int32_t>(layers[s]);
    const std::int32_t worker =
        worker_of_stage(placement, static_cast<std::int32_t>(spec.gpus), static_cast<std::int32_t>(s));
    stages.push_back({worker, first, count, 1, 1});
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

/// Bytes that one micro-batch's activations on a stage take: its input and the results of its layers.
std::int64_t activation_bytes(const Plan& plan, const Operation& operation) {
  const Stage& stage = plan.stages[static_cast<std::size_t>(operation.stage)];
  const std::vector<Layer>& layers = plan.spec.model.layers;
  std::int64_t width = layers[static_cast<std::size_t>(stage.first_layer)].in_features;
  for (std::int32_t l = 0; l < stage.layer_count && !plan.spec.recompute; ++l) {
    width += layers[static_cast<std::size_t>(stage.first_layer + l)].out_features;
  }
  return plan.microbatch_rows[static_cast<std::size_t>(operation.microbatch)] * width * kBytesPerActivation;
}

/// Gives every (stage, micro-batch) of a worker its buffer, and counts what is live. A micro-batch holds its buffer from
/// its forward to its last backward; where the stage above is on the same worker, which reads this one's result in place,
/// to the last backward of that one too.
class Buffers {
 public:
  explicit Buffers(Plan& plan) : plan_(plan), states_(plan.stages.size()) {
    plan_.slots.assign(plan.stages.size(), std::vector<std::int32_t>(plan.microbatch_rows.size(), 0));
  }

  void assign(const std::vector<Operation>& order, std::int32_t worker) {
    std::vector<std::int32_t> own;
    for (std::int32_t s = 0; s < std::ssize(plan_.stages); ++s) {
      if (plan_.stages[static_cast<std::size_t>(s)].worker == worker) own.push_back(s);
    }
    count_live(order, worker);
    walk(order);  // how many are held at once
    for (const std::int32_t s : own) {
      Stage& stage = plan_.stages[static_cast<std::size_t>(s)];
      const bool arrives = s > 0 && !is_local_boundary(plan_.stages, static_cast<std::size_t>(s));
      const auto microbatches = static_cast<std::int32_t>(plan_.microbatch_rows.size());
      stage.slots = std::min(microbatches, std::max(1, state(s).most_held) + (arrives ? 1 : 0));
      state(s) = {};
      for (std::int32_t slot = 0; slot < stage.slots; ++slot) state(s).free.push_back(slot);
    }
    walk(order);  // which
  }

 private:
  struct State {
    std::deque<std::int32_t> free;
    std::vector<std::int32_t> readers;  // by micro-batch: stages whose backward is still to come
    std::int32_t held = 0, most_held = 0;
  };

  State& state(std::int32_t stage) { return states_[static_cast<std::size_t>(stage)]; }

  void count_live(const std::vector<Operation>& order, std::int32_t worker) {
    std::vector<std::int32_t> of_stage(plan_.stages.size(), 0);
    std::int64_t bytes = 0;
    std::int32_t count = 0;
    LiveActivations& most = plan_.live[static_cast<std::size_t>(worker)];
    for (const Operation& operation : order) {
      const auto s = static_cast<std::size_t>(operation.stage);
      if (operation.kind == OperationKind::forward) {
        Stage& stage = plan_.stages[s];
        stage.live_microbatches = std::max(stage.live_microbatches, ++of_stage[s]);
        bytes += activation_bytes(plan_, operation);
        most = {std::max(most.count, ++count), std::max(most.bytes, bytes)};
      } else if (is_last_backward(operation.kind)) {
        --of_stage[s];
        --count;
        bytes -= activation_bytes(plan_, operation);
      }
    }
  }

  static bool is_last_backward(OperationKind kind) {
    return kind == OperationKind::backward || kind == OperationKind::backward_weight;
  }

  void walk(const std::vector<Operation>& order) {
    for (const Operation& operation : order) {
      if (operation.kind == OperationKind::forward) take(operation.stage, operation.microbatch);
      if (!is_last_backward(operation.kind)) continue;
      give(operation.stage, operation.microbatch);
      if (is_local_boundary(plan_.stages, static_cast<std::size_t>(operation.stage))) {
        give(operation.stage - 1, operation.microbatch);
      }
    }
  }

  void take(std::int32_t stage, std::int32_t microbatch) {
    State& of = state(stage);
    of.readers.resize(plan_.microbatch_rows.size(), 0);
    const bool read_above = static_cast<std::size_t>(stage) + 1 < plan_.stages.size() &&
                            is_local_boundary(plan_.stages, static_cast<std::size_t>(stage) + 1);
    of.readers[static_cast<std::size_t>(microbatch)] = read_above ? 2 : 1;
    of.most_held = std::max(of.most_held, ++of.held);
    if (of.free.empty()) return;
    slot(stage, microbatch) = of.free.front();
    of.free.pop_front();
  }

  void give(std::int32_t stage, std::int32_t microbatch) {
    State& of = state(stage);
    if (of.readers.empty() || --of.readers[static_cast<std::size_t>(microbatch)] > 0) return;
    --of.held;
    of.free.push_back(slot(stage, microbatch));
  }

  std::int32_t& slot(std::int32_t stage, std::int32_t microbatch) {
    return plan_.slots[static_cast<std::size_t>(stage)][static_cast<std::size_t>(microbatch)];
  }

  Plan& plan_;
  std::vector<State> states_;
};

/// The tasks of one step, from the operations in their order.
class Planner {
 public:
  Planner(Plan& plan, const PipelineOrder& order)
      : plan_(plan),
        spec_(plan.spec),
        order_(order),
        microbatches_(static_cast<std::int32_t>(plan.microbatch_rows.size())),
        stages_(static_cast<std::int32_t>(plan.stages.size())),
        started_(plan.stages.size(), false) {}

  /// One worker and one host thread a GPU: a task waits for the transfer, or the task of its own worker, that feeds it.
  TaskGraph one_worker_a_gpu() {
    const std::size_t cells = static_cast<std::size_t>(stages_) * static_cast<std::size_t>(microbatches_);
    feeds_forward_.assign(cells, kNone);
    feeds_backward_.assign(cells, kNone);
    needs_forward_.assign(cells, kNone);
    needs_backward_.assign(cells, kNone);
    builder_.reserve(4 * cells, 5 * cells);
    const auto workers = static_cast<std::int32_t>(order_.workers.size());
    for (std::int32_t worker = 0; worker < workers; ++worker) {
      previous_ = kNone;
      for (const Operation& operation : order_.workers[static_cast<std::size_t>(worker)]) {
        is_transfer(task_kind(operation.kind)) ? add_explicit_transfer(operation) : add_operation(operation);
      }
      for (std::int32_t stage = 0; stage < stages_; ++stage) {
        if (worker_of(stage) == worker) add_optimizer(stage, static_cast<std::uint32_t>(worker));
      }
    }
    join(feeds_forward_, needs_forward_);
    join(feeds_backward_, needs_backward_);
    return std::move(builder_).build(static_cast<std::uint32_t>(workers), static_cast<std::uint32_t>(workers));
  }

  /// One thread issues for all GPUs, in the order of the schedule's first worker: a forward runs through all stages
  /// before the next operation is issued, and so does a backward. A peer copy of PyTorch joins the compute streams of
  /// both GPUs (two-way barrier in at::native::copy_kernel_cuda, PyTorch 2.11), hence a group of two tasks.
  TaskGraph one_thread() {
    for (const Operation& operation : order_.workers.front()) {
      const bool forward = operation.kind == OperationKind::forward;
      for (std::int32_t i = 0; i < stages_; ++i) {
        const std::int32_t stage = forward ? i : stages_ - 1 - i;
        if (i > 0) add_joined_copy(forward ? stage - 1 : stage + 1, stage, operation.microbatch);
        add_compute({operation.kind, stage, operation.microbatch}, 0);
      }
    }
    for (std::int32_t stage = 0; stage < stages_; ++stage) add_optimizer(stage, 0);
    return std::move(builder_).build(static_cast<std::uint32_t>(stages_), 1);
  }

 private:
  std::int32_t worker_of(std::int32_t stage) const { return plan_.stages[static_cast<std::size_t>(stage)].worker; }

  std::int32_t chunk_of(std::int32_t stage) const { return stage / static_cast<std::int32_t>(spec_.gpus); }

  std::size_t cell(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(microbatches_) +
           static_cast<std::size_t>(microbatch);
  }

  Implementation implementation() const {
    return spec_.workers == Workers::one ? Implementation::autograd : Implementation::pipeline;
  }

  TaskId add_compute(const Operation& operation, std::uint32_t host) {
    return add_compute(task_kind(operation.kind), operation.stage, operation.microbatch, host);
  }

  TaskId add_compute(TaskKind kind, std::int32_t stage_index, std::int32_t microbatch, std::uint32_t host) {
    const Stage& stage = plan_.stages[static_cast<std::size_t>(stage_index)];
    Work work;
    work.kind = kind;
    work.implementation = implementation();
    work.first_layer = stage.first_layer;
    work.layer_count = stage.layer_count;
    work.rows = plan_.microbatch_rows[static_cast<std::size_t>(microbatch)];
    const bool whole_or_input = kind == TaskKind::backward || kind == TaskKind::backward_input;
    work.loss = whole_or_input && stage_index == stages_ - 1;
    work.input_gradient = !(whole_or_input && stage_index == 0);
    if (kind == TaskKind::backward || kind == TaskKind::backward_weight) {
      work.accumulate = started_[static_cast<std::size_t>(stage_index)];
      started_[static_cast<std::size_t>(stage_index)] = true;
    }
    return builder_.add_task({builder_.add_work(work), stream_of(stage.worker, StreamRole::compute, 0), host, kNone,
                              stage.worker, stage_index, microbatch, kind});
  }

  void add_optimizer(std::int32_t stage_index, std::uint32_t host) {
    const Stage& stage = plan_.stages[static_cast<std::size_t>(stage_index)];
    Work work;
    work.kind = TaskKind::optimizer;
    work.implementation = implementation();
    work.first_layer = stage.first_layer;
    work.layer_count = stage.layer_count;
    builder_.add_task({builder_.add_work(work), stream_of(stage.worker, StreamRole::compute, 0), host, kNone, stage.worker,
                       stage_index, -1, work.kind});
  }

  std::uint32_t transfer_work(TaskKind kind, std::int32_t from_stage, std::int32_t to_stage, std::int32_t microbatch) {
    const std::int64_t width =
        spec_.model.layers[static_cast<std::size_t>(plan_.stages[static_cast<std::size_t>(std::max(from_stage, to_stage))].first_layer)]
            .in_features;
    Work work;
    work.kind = kind;
    work.implementation = implementation();
    work.from_worker = worker_of(from_stage);
    work.to_worker = worker_of(to_stage);
    work.rows = plan_.microbatch_rows[static_cast<std::size_t>(microbatch)];
    work.bytes = work.rows * width * kBytesPerActivation;
    return builder_.add_work(work);
  }

  bool messages_are_given() const {
    return spec_.schedule_file && spec_.schedule_file->has_transfers && spec_.p2p == PointToPoint::rendezvous;
  }

  /// The receive (if the transport has one), the operation, and the send of its result.
  void add_operation(const Operation& operation) {
    const std::int32_t stage = operation.stage, microbatch = operation.microbatch;
    const bool forward = operation.kind == OperationKind::forward;
    const auto host = static_cast<std::uint32_t>(worker_of(stage));
    const bool moves = operation.kind != OperationKind::backward_weight;
    const std::int32_t source = forward ? stage - 1 : stage + 1;
    const std::int32_t target = forward ? stage + 1 : stage - 1;
    const bool has_source = moves && source >= 0 && source < stages_;
    const bool has_target = moves && target >= 0 && target < stages_;
    std::vector<TaskId>& feeds = forward ? feeds_forward_ : feeds_backward_;
    std::vector<TaskId>& needs = forward ? needs_forward_ : needs_backward_;

    TaskId received = kNone;
    const bool receives = has_source && worker_of(source) != worker_of(stage);
    if (receives && spec_.p2p == PointToPoint::rendezvous && !messages_are_given()) {
      received = add_transfer(forward ? TaskKind::receive_forward : TaskKind::receive_backward, source, stage, microbatch, host);
      if (previous_ != kNone) builder_.add_edge(previous_, received);
    }
    if (spec_.recompute && operation.kind == OperationKind::backward) {
      add_compute(TaskKind::recompute, stage, microbatch, host);  // need not wait for the gradient
    }
    const TaskId task = add_compute(operation, host);
    if (received != kNone) builder_.add_edge(received, task);
    if (messages_are_given() && previous_ != kNone) builder_.add_edge(previous_, task);
    if (has_source && received == kNone && !(receives && messages_are_given())) needs[cell(stage, microbatch)] = task;
    previous_ = task;
    if (!has_target) return;
    if (worker_of(target) == worker_of(stage)) {
      feeds[cell(target, microbatch)] = task;
    } else if (!messages_are_given()) {
      const TaskId sent = add_transfer(forward ? TaskKind::send_forward : TaskKind::send_backward, stage, target, microbatch, host);
      builder_.add_edge(task, sent);
      feeds[cell(target, microbatch)] = sent;
    }
  }

  /// A message where the schedule's file puts it: with rendezvous it holds its worker until both ends are there. Eager
  /// messages hold nobody: they leave beside the operation that makes them.
  void add_explicit_transfer(const Operation& operation) {
    if (!messages_are_given()) return;
    const TaskKind kind = task_kind(operation.kind);
    const bool sends = is_send(kind);
    const std::int32_t other = other_stage(kind, operation.stage);
    const TaskId task = add_transfer(kind, sends ? operation.stage : other, sends ? other : operation.stage,
                                     operation.microbatch, static_cast<std::uint32_t>(worker_of(operation.stage)));
    if (previous_ != kNone) builder_.add_edge(previous_, task);
    previous_ = task;
  }

  TaskId add_transfer(TaskKind kind, std::int32_t from_stage, std::int32_t to_stage, std::int32_t microbatch,
                      std::uint32_t host) {
    const bool forward = carries_activations(kind);
    const bool sends = is_send(kind);
    const std::int32_t stage = sends ? from_stage : to_stage;
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
    // The lane is that of the lower stage of the boundary, at both ends.
    const std::uint32_t stream = stream_of(worker_of(stage), role, chunk_of(std::min(from_stage, to_stage)));
    return builder_.add_task({transfer_work(kind, from_stage, to_stage, microbatch), pure_delay ? kNone : stream, host, group,
                              worker_of(stage), stage, microbatch, kind});
  }

  void add_joined_copy(std::int32_t from_stage, std::int32_t to_stage, std::int32_t microbatch) {
    const bool forward = to_stage > from_stage;
    const std::uint32_t group = builder_.add_group();
    const auto add = [&](TaskKind kind, std::int32_t stage) {
      const std::int32_t worker = worker_of(stage);
      builder_.add_task({transfer_work(kind, from_stage, to_stage, microbatch), stream_of(worker, StreamRole::compute, 0), 0,
                         group, worker, stage, microbatch, kind});
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
  const PipelineOrder& order_;
  std::int32_t microbatches_;
  std::int32_t stages_;
  std::vector<bool> started_;  // by stage: gradients have been written in this step
  TaskId previous_ = kNone;    // of the worker whose operations are being added: its last operation or given message
  TaskGraphBuilder builder_;
  // By stage and micro-batch: what brings the input (a transfer, or the stage before on the same worker), the task that
  // needs it, the pair's group.
  std::vector<TaskId> feeds_forward_, feeds_backward_, needs_forward_, needs_backward_;
  std::vector<std::uint32_t> groups_forward_, groups_backward_;
};

/// torch.chunk may make fewer micro-batches than asked for: a schedule with a rule must take what there is.
PipelineOrder make_order(const RunSpec& spec, std::size_t microbatches) {
  if (spec.schedule_file) {
    if (static_cast<std::size_t>(spec.schedule_file->order.shape.microbatches) != microbatches) {
      throw InputError("batch", std::to_string(spec.batch) + " samples, which torch.chunk makes " + std::to_string(microbatches) + " micro-batches of",
                       std::to_string(spec.schedule_file->order.shape.microbatches) + ", as in the schedule " + spec.schedule);
    }
    return spec.schedule_file->order;
  }
  const Schedule* schedule = find_schedule(spec.schedule);
  if (!schedule) throw InputError("--schedule", spec.schedule + ", which is searched for by pdl-sim", "a schedule with an order: export it with pdl-sim --schedule-csv FILE.csv");
  const ScheduleShape shape = shape_of(spec, static_cast<std::int64_t>(microbatches));
  if (schedule->refuses) {
    if (const std::string rule = schedule->refuses(shape); !rule.empty()) {
      throw InputError("batch", std::to_string(spec.batch) + " samples make " + rule.substr(0, rule.find(": ")), rule.substr(rule.find(": ") + 2));
    }
  }
  return make_order(*schedule, shape);
}

}  // namespace

bool is_local_boundary(const std::vector<Stage>& stages, std::size_t stage) {
  return stage > 0 && stages[stage - 1].worker == stages[stage].worker;
}

std::vector<std::int64_t> microbatch_rows(const RunSpec& spec) {
  std::vector<std::string> unused;
  return make_microbatches(spec, unused);
}

PipelineOrder make_order(const RunSpec& spec) { return make_order(spec, microbatch_rows(spec).size()); }

Plan make_plan(const RunSpec& spec) {
  Plan plan;
  plan.spec = spec;
  plan.microbatch_rows = make_microbatches(spec, plan.warnings);
  const PipelineOrder order = make_order(spec, plan.microbatch_rows.size());
  plan.stages = make_stages(spec, order.placement);
  plan.live.resize(static_cast<std::size_t>(spec.gpus));
  if (spec.schedule_file) {
    const std::vector<std::string>& of_file = spec.schedule_file->warnings;
    plan.warnings.insert(plan.warnings.end(), of_file.begin(), of_file.end());
  }
  Buffers buffers(plan);
  for (std::int32_t worker = 0; worker < std::ssize(order.workers); ++worker) {
    buffers.assign(order.workers[static_cast<std::size_t>(worker)], worker);
  }
  Planner planner(plan, order);
  plan.graph = spec.workers == Workers::one ? planner.one_thread() : planner.one_worker_a_gpu();
  return plan;
}

}  // namespace pdl
