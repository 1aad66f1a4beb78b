#include "sim/plan/plan.hpp"

#include <algorithm>
#include <deque>
#include <stdexcept>

#include "sim/io/error.hpp"
#include "sim/plan/data_parallel.hpp"
#include "sim/spec/schedule.hpp"
#include "sim/spec/split.hpp"

namespace pdl {
namespace {

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
  const std::vector<std::int64_t> layers =
      spread(static_cast<std::int64_t>(spec.model.layers.size()), stage_count(spec));
  const auto workers = static_cast<std::int32_t>(pipeline_workers(spec));
  std::vector<Stage> stages;
  for (std::int32_t replica = 0; replica < replica_count(spec); ++replica) {
    std::int32_t first = 0;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const auto count = static_cast<std::int32_t>(layers[s]);
      const std::int32_t worker = worker_of_stage(placement, workers, static_cast<std::int32_t>(s));
      stages.push_back({replica * workers + worker, first, count, replica, 1, 1});
      first += count;
    }
  }
  return stages;
}

std::vector<std::vector<std::int32_t>> stages_by_worker(const Plan& plan) {
  std::vector<std::vector<std::int32_t>> stages(static_cast<std::size_t>(plan.spec.gpus));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    stages[static_cast<std::size_t>(plan.stages[s].worker)].push_back(static_cast<std::int32_t>(s));
  }
  return stages;
}

/// The same for every round and for every replica: stages and micro-batches are counted on, workers follow each other.
PipelineOrder for_rounds_and_replicas(const PipelineOrder& order, const RunSpec& spec) {
  PipelineOrder all = order;
  all.workers.clear();
  for (std::int32_t replica = 0; replica < spec.dp; ++replica) {
    for (const std::vector<Operation>& of_worker : order.workers) {
      std::vector<Operation>& operations = all.workers.emplace_back();
      for (std::int32_t round = 0; round < spec.accum; ++round) {
        for (Operation operation : of_worker) {
          operation.stage += replica * static_cast<std::int32_t>(stage_count(spec));
          operation.microbatch += round * order.shape.microbatches;
          operations.push_back(operation);
        }
      }
    }
  }
  return all;
}

/// Samples of each micro-batch. With synthetic costs every micro-batch costs the same, whatever its samples: as many
/// as asked for, their samples as even as can be.
std::vector<std::int64_t> make_microbatches(const RunSpec& spec, std::vector<std::string>& warnings) {
  const std::int64_t batch = replica_rows(spec).front();
  if (spec.synthetic && batch >= spec.microbatches) return spread(batch, spec.microbatches);
  if (spec.synthetic) {
    throw InputError("batch",
                     std::to_string(batch) + " samples for " + std::to_string(spec.microbatches) + " micro-batches",
                     "at least one sample for every micro-batch");
  }
  std::vector<std::int64_t> rows = torch_chunk(batch, spec.microbatches);
  if (static_cast<std::int64_t>(rows.size()) != spec.microbatches) {
    warnings.push_back(std::to_string(batch) + " samples in " + std::to_string(spec.microbatches) +
                       " micro-batches: torch.chunk makes only " + std::to_string(rows.size()) + ", of " +
                       std::to_string(rows.front()) +
                       (rows.size() > 1 ? " (last " + std::to_string(rows.back()) + ")" : "") + " samples");
  } else if (rows.back() != rows.front()) {
    warnings.push_back("micro-batches are not equal: " + std::to_string(rows.front()) + " samples, the last one " +
                       std::to_string(rows.back()));
  }
  return rows;
}

/// Bytes that one micro-batch's activations on a stage take: what its layers keep; with recomputation its input alone.
std::int64_t activation_bytes(const Plan& plan, const Operation& operation,
                              const std::vector<std::int64_t>& number_bytes) {
  const Stage& stage = plan.stages[static_cast<std::size_t>(operation.stage)];
  const std::int64_t rows = plan.microbatch_rows[static_cast<std::size_t>(operation.microbatch)];
  const RunSpec& spec = plan.spec;
  if (spec.workers == Workers::one) {
    return kept_by_autograd(spec.model, stage.first_layer, stage.layer_count, rows, spec.dtype, number_bytes);
  }
  return kept_by_pipeline(spec.model, stage.first_layer, spec.recompute ? 0 : stage.layer_count, rows);
}

/// Gives every (stage, micro-batch) of a worker its buffer, and counts what is live. A micro-batch holds its buffer
/// from its forward to its last backward; where the stage above is on the same worker, which reads this one's result in
/// place, to the last backward of that one too.
class Buffers {
 public:
  explicit Buffers(Plan& plan)
      : plan_(plan),
        number_bytes_(activation_number_bytes(plan.spec.model, plan.spec.dtype)),
        states_(plan.stages.size()),
        live_(plan.stages.size(), 0) {
    plan_.slots.assign(plan.stages.size(), std::vector<std::int32_t>(plan.microbatch_rows.size(), 0));
  }

  /// `own`: the stages of the worker.
  void assign(const std::vector<Operation>& order, std::int32_t worker, const std::vector<std::int32_t>& own) {
    count_live(order, worker);
    walk(order);  // how many are held at once
    for (const std::int32_t s : own) {
      Stage& stage = plan_.stages[static_cast<std::size_t>(s)];
      const bool arrives = !is_first_stage(plan_.stages, static_cast<std::size_t>(s)) &&
                           !is_local_boundary(plan_.stages, static_cast<std::size_t>(s));
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
    std::int64_t bytes = 0;
    std::int32_t count = 0;
    LiveActivations& most = plan_.live[static_cast<std::size_t>(worker)];
    for (const Operation& operation : order) {
      const auto s = static_cast<std::size_t>(operation.stage);
      if (operation.kind == OperationKind::forward) {
        Stage& stage = plan_.stages[s];
        stage.live_microbatches = std::max(stage.live_microbatches, ++live_[s]);
        bytes += activation_bytes(plan_, operation, number_bytes_);
        most = {std::max(most.count, ++count), std::max(most.bytes, bytes)};
      } else if (is_last_backward(operation.kind)) {
        --live_[s];
        --count;
        bytes -= activation_bytes(plan_, operation, number_bytes_);
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
  std::vector<std::int64_t> number_bytes_;  // of what goes between two layers
  std::vector<State> states_;
  std::vector<std::int32_t> live_;  // by stage: micro-batches whose activations are kept
};

/// The tasks of one step, from the operations in their order.
class Planner {
 public:
  Planner(Plan& plan, const PipelineOrder& order)
      : plan_(plan),
        spec_(plan.spec),
        order_(order),
        number_bytes_(activation_number_bytes(plan.spec.model, plan.spec.dtype)),
        microbatches_(static_cast<std::int32_t>(plan.microbatch_rows.size())),
        stages_(static_cast<std::int32_t>(plan.stages.size())),
        last_gradient_(plan.stages.size(), kNone),
        reduced_(plan.stages.size(), kNone) {}

  /// One worker and one host thread a GPU: a task waits for the transfer, or the task of its own worker, that feeds it.
  TaskGraph one_worker_a_gpu() {
    const std::size_t cells = static_cast<std::size_t>(stages_) * static_cast<std::size_t>(microbatches_);
    feeds_forward_.assign(cells, kNone);
    feeds_backward_.assign(cells, kNone);
    needs_forward_.assign(cells, kNone);
    needs_backward_.assign(cells, kNone);
    builder_.reserve(4 * cells, 5 * cells);
    const auto workers = static_cast<std::int32_t>(order_.workers.size());
    const std::vector<std::vector<std::int32_t>> stages_of = stages_by_worker(plan_);
    for (std::int32_t worker = 0; worker < workers; ++worker) {
      previous_ = kNone;
      const std::vector<Operation>& operations = order_.workers[static_cast<std::size_t>(worker)];
      const std::vector<bool> exchanges = gradients_complete(operations);
      add_straggler(worker, static_cast<std::uint32_t>(worker));
      for (std::size_t i = 0; i < operations.size(); ++i) {
        const Operation& operation = operations[i];
        is_transfer(task_kind(operation.kind)) ? add_explicit_transfer(operation) : add_operation(operation);
        if (exchanges[i]) add_all_reduce(operation, static_cast<std::uint32_t>(worker));
      }
      for (const std::int32_t stage : stages_of[static_cast<std::size_t>(worker)])
        add_optimizer(stage, static_cast<std::uint32_t>(worker));
    }
    join(feeds_forward_, needs_forward_);
    join(feeds_backward_, needs_backward_);
    return std::move(builder_).build(static_cast<std::uint32_t>(workers), static_cast<std::uint32_t>(workers));
  }

  /// One thread issues for all GPUs, in the order of the schedule's first worker: a forward runs through all stages
  /// before the next operation is issued, and so does a backward. A peer copy of PyTorch joins the compute streams of
  /// both GPUs (two-way barrier in at::native::copy_kernel_cuda, PyTorch 2.11), hence a group of two tasks.
  TaskGraph one_thread() {
    add_straggler(0, 0);
    for (const Operation& operation : order_.workers.front()) {
      const bool forward = operation.kind == OperationKind::forward;
      if (!forward) add_delay(stages_ - 1, operation.microbatch, 0);
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

  std::int32_t chunk_of(std::int32_t stage) const {
    return stage % static_cast<std::int32_t>(stage_count(spec_)) / static_cast<std::int32_t>(pipeline_workers(spec_));
  }

  bool is_first(std::int32_t stage) const { return is_first_stage(plan_.stages, static_cast<std::size_t>(stage)); }

  bool is_last(std::int32_t stage) const { return is_last_stage(plan_.stages, static_cast<std::size_t>(stage)); }

  /// For each operation: after it a stage has all its gradients of a round in which replicas exchange them.
  std::vector<bool> gradients_complete(const std::vector<Operation>& operations) {
    std::vector<bool> complete(operations.size(), false);
    if (spec_.dp == 1) return complete;
    const std::int32_t in_round = microbatches_of_a_round(plan_);
    still_to_come_.resize(plan_.stages.size(), in_round);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& operation = operations[i];
      if (operation.kind != OperationKind::backward && operation.kind != OperationKind::backward_weight) continue;
      std::int32_t& left = still_to_come_[static_cast<std::size_t>(operation.stage)];
      if (--left > 0) continue;
      left = in_round;
      complete[i] = exchanges_in_round(spec_, operation.microbatch / in_round);
    }
    return complete;
  }

  /// The gradients of a stage, averaged over its replicas.
  void add_all_reduce(const Operation& operation, std::uint32_t host) {
    const Stage& stage = plan_.stages[static_cast<std::size_t>(operation.stage)];
    if (parameters(spec_.model, stage.first_layer, stage.layer_count) == 0) return;
    const auto of_replica = operation.stage % static_cast<std::int32_t>(stage_count(spec_));
    const std::int64_t round = operation.microbatch / microbatches_of_a_round(plan_);
    reduce_groups_.resize(static_cast<std::size_t>(stage_count(spec_) * spec_.accum), kNone);
    std::uint32_t& group = reduce_groups_[static_cast<std::size_t>(of_replica * spec_.accum + round)];
    if (group == kNone) group = builder_.add_group();
    Work work;
    work.kind = TaskKind::all_reduce;
    work.implementation = implementation();
    work.ranks = static_cast<std::int32_t>(spec_.dp);
    work.bytes = parameters(spec_.model, stage.first_layer, stage.layer_count) * kBytesPerNumber;
    const TaskId task = builder_.add_task({builder_.add_work(work), stream_of(stage.worker, StreamRole::collective, 0),
                                           host, group, stage.worker, operation.stage, operation.microbatch, work.kind,
                                           static_cast<std::uint32_t>(of_replica)});
    builder_.add_edge(last_gradient_[static_cast<std::size_t>(operation.stage)], task);
    reduced_[static_cast<std::size_t>(operation.stage)] = task;
  }

  void add_sleep(std::int32_t stage, std::int32_t microbatch, std::uint32_t host, double ms) {
    const std::int32_t worker = worker_of(stage);
    builder_.add_task(
        {builder_.add_work(sleep_work(ms)), kNone, host, kNone, worker, stage, microbatch, TaskKind::sleep});
  }

  void add_delay(std::int32_t stage, std::int32_t microbatch, std::uint32_t host) {
    if (spec_.delay_ms > 0) add_sleep(stage, microbatch, host, spec_.delay_ms);
  }

  void add_straggler(std::int32_t worker, std::uint32_t host) {
    if (!spec_.straggler || spec_.straggler->rank != worker || spec_.straggler->ms == 0) return;
    const auto holds = [&](const Stage& stage) { return stage.worker == worker; };
    const auto stage = std::find_if(plan_.stages.begin(), plan_.stages.end(), holds);
    add_sleep(static_cast<std::int32_t>(stage - plan_.stages.begin()), -1, host, spec_.straggler->ms);
  }

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
    work.loss = whole_or_input && is_last(stage_index);
    work.input_gradient = !(whole_or_input && is_first(stage_index));
    const bool writes_gradients = kind == TaskKind::backward || kind == TaskKind::backward_weight;
    const auto s = static_cast<std::size_t>(stage_index);
    if (writes_gradients) work.accumulate = last_gradient_[s] != kNone;
    const TaskId task = builder_.add_task({builder_.add_work(work), stream_of(stage.worker, StreamRole::compute, 0),
                                           host, kNone, stage.worker, stage_index, microbatch, kind});
    if (!writes_gradients) return task;
    last_gradient_[s] = task;
    if (reduced_[s] != kNone) builder_.add_edge(reduced_[s], task);  // adds to what is being exchanged
    reduced_[s] = kNone;
    return task;
  }

  void add_optimizer(std::int32_t stage_index, std::uint32_t host) {
    const Stage& stage = plan_.stages[static_cast<std::size_t>(stage_index)];
    Work work;
    work.kind = TaskKind::optimizer;
    work.implementation = implementation();
    work.first_layer = stage.first_layer;
    work.layer_count = stage.layer_count;
    const TaskId task = builder_.add_task({builder_.add_work(work), stream_of(stage.worker, StreamRole::compute, 0),
                                           host, kNone, stage.worker, stage_index, -1, work.kind});
    const TaskId reduced = reduced_[static_cast<std::size_t>(stage_index)];
    if (reduced != kNone) builder_.add_edge(reduced, task);
  }

  std::uint32_t transfer_work(TaskKind kind, std::int32_t from_stage, std::int32_t to_stage, std::int32_t microbatch) {
    const auto layer =
        static_cast<std::size_t>(plan_.stages[static_cast<std::size_t>(std::max(from_stage, to_stage))].first_layer);
    Work work;
    work.kind = kind;
    work.implementation = implementation();
    work.from_worker = worker_of(from_stage);
    work.to_worker = worker_of(to_stage);
    work.rows = plan_.microbatch_rows[static_cast<std::size_t>(microbatch)];
    work.bytes = work.rows * input_numbers(spec_.model.layers[layer]) * number_bytes_[layer];
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
    const bool has_source = moves && !(forward ? is_first(stage) : is_last(stage));
    const bool has_target = moves && !(forward ? is_last(stage) : is_first(stage));
    std::vector<TaskId>& feeds = forward ? feeds_forward_ : feeds_backward_;
    std::vector<TaskId>& needs = forward ? needs_forward_ : needs_backward_;

    TaskId received = kNone;
    const bool receives = has_source && worker_of(source) != worker_of(stage);
    if (receives && spec_.p2p == PointToPoint::rendezvous && !messages_are_given()) {
      received = add_transfer(forward ? TaskKind::receive_forward : TaskKind::receive_backward, source, stage,
                              microbatch, host);
      if (previous_ != kNone) builder_.add_edge(previous_, received);
    }
    if (spec_.recompute && operation.kind == OperationKind::backward) {
      add_compute(TaskKind::recompute, stage, microbatch, host);  // need not wait for the gradient
    }
    if (operation.kind == OperationKind::backward || operation.kind == OperationKind::backward_input) {
      add_delay(stage, microbatch, host);
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
      const TaskId sent =
          add_transfer(forward ? TaskKind::send_forward : TaskKind::send_backward, stage, target, microbatch, host);
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
    std::uint32_t group = kNone;
    if (spec_.p2p == PointToPoint::rendezvous) {
      // The boundary below the higher stage, the micro-batch and the direction name the pair.
      std::vector<std::uint32_t>& groups = forward ? groups_forward_ : groups_backward_;
      groups.resize(static_cast<std::size_t>(stages_) * static_cast<std::size_t>(microbatches_), kNone);
      std::uint32_t& of_pair = groups[cell(std::max(from_stage, to_stage), microbatch)];
      if (of_pair == kNone) of_pair = builder_.add_group();
      group = of_pair;
    }
    // The lane is that of the lower stage of the boundary, at both ends. A textbook's message, which nobody waits to
    // send, takes its link in the order in which its GPU has made the messages: no GPU waits, and none can overtake.
    const bool textbook = spec_.synthetic && spec_.p2p == PointToPoint::eager;
    const std::uint32_t stream = textbook ? link(worker_of(from_stage), worker_of(to_stage))
                                          : stream_of(worker_of(stage), role, chunk_of(std::min(from_stage, to_stage)));
    return builder_.add_task({transfer_work(kind, from_stage, to_stage, microbatch), stream, host, group,
                              worker_of(stage), stage, microbatch, kind});
  }

  std::uint32_t link(std::int32_t from_worker, std::int32_t to_worker) const {
    const auto workers = static_cast<std::int32_t>(pipeline_workers(spec_));
    return link_of(from_worker, to_worker, from_worker / workers * workers, workers);
  }

  void add_joined_copy(std::int32_t from_stage, std::int32_t to_stage, std::int32_t microbatch) {
    const bool forward = to_stage > from_stage;
    const std::uint32_t group = builder_.add_group();
    const auto add = [&](TaskKind kind, std::int32_t stage) {
      const std::int32_t worker = worker_of(stage);
      builder_.add_task({transfer_work(kind, from_stage, to_stage, microbatch),
                         stream_of(worker, StreamRole::compute, 0), 0, group, worker, stage, microbatch, kind});
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
  std::vector<std::int64_t> number_bytes_;  // of what goes between two layers
  std::int32_t microbatches_;
  std::int32_t stages_;
  // By stage: the last task that wrote its gradients in this step; their exchange since then.
  std::vector<TaskId> last_gradient_, reduced_;
  std::vector<std::uint32_t> reduce_groups_;  // by stage of a replica, and round
  std::vector<std::int32_t> still_to_come_;   // by stage: backwards of the round that is being added
  TaskId previous_ = kNone;  // of the worker whose operations are being added: its last operation or given message
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
      throw InputError(
          "batch",
          std::to_string(replica_rows(spec).front()) + " samples, which torch.chunk makes " +
              std::to_string(microbatches) + " micro-batches of",
          std::to_string(spec.schedule_file->order.shape.microbatches) + ", as in the schedule " + spec.schedule);
    }
    return spec.schedule_file->order;
  }
  const Schedule* schedule = find_schedule(spec.schedule);
  if (!schedule)
    throw InputError("--schedule", spec.schedule + ", which is searched for by pdl-sim",
                     "a schedule with an order: export it with pdl-sim --schedule-csv FILE.csv");
  const ScheduleShape shape = shape_of(spec, static_cast<std::int64_t>(microbatches));
  if (const auto refusal = schedule->refusal(shape)) {
    throw InputError("batch", std::to_string(replica_rows(spec).front()) + " samples make " + refusal->found,
                     refusal->expected);
  }
  return make_order(*schedule, shape);
}

}  // namespace

bool is_local_boundary(const std::vector<Stage>& stages, std::size_t stage) {
  return !is_first_stage(stages, stage) && stages[stage - 1].worker == stages[stage].worker;
}

bool is_first_stage(const std::vector<Stage>& stages, std::size_t stage) {
  return stage == 0 || stages[stage - 1].replica != stages[stage].replica;
}

bool is_last_stage(const std::vector<Stage>& stages, std::size_t stage) {
  return stage + 1 == stages.size() || stages[stage + 1].replica != stages[stage].replica;
}

std::vector<std::int64_t> replica_rows(const RunSpec& spec) {
  const std::int64_t replicas = replica_count(spec);
  if (spec.strategy != Strategy::dp) return spread(spec.batch, replicas);
  std::vector<std::int64_t> rows = torch_chunk(spec.batch, replicas);
  rows.resize(static_cast<std::size_t>(replicas), 0);
  return rows;
}

std::vector<std::int64_t> microbatch_rows(const RunSpec& spec) {
  std::vector<std::string> unused;
  return make_microbatches(spec, unused);
}

std::int32_t microbatches_of_a_round(const Plan& plan) {
  return static_cast<std::int32_t>(std::ssize(plan.microbatch_rows) / plan.spec.accum);
}

std::int64_t rows_of(const Plan& plan, std::int32_t replica, std::int32_t microbatch) {
  if (microbatches_of_a_round(plan) == 1) return plan.replica_rows[static_cast<std::size_t>(replica)];
  return plan.microbatch_rows[static_cast<std::size_t>(microbatch)];
}

PipelineOrder make_order(const RunSpec& spec) {
  return make_order(spec, microbatch_rows(spec).size());
}

Plan make_plan(const RunSpec& spec) {
  Plan plan;
  plan.spec = spec;
  plan.replica_rows = replica_rows(spec);
  const std::vector<std::int64_t> rows = make_microbatches(spec, plan.warnings);
  for (std::int64_t round = 0; round < spec.accum; ++round) {
    plan.microbatch_rows.insert(plan.microbatch_rows.end(), rows.begin(), rows.end());
  }
  plan.live.resize(static_cast<std::size_t>(spec.gpus));
  if (is_data_parallel(spec)) {
    plan.stages = make_stages(spec, Placement::loop);
    plan_data_parallel(plan);
    return plan;
  }
  const PipelineOrder order = for_rounds_and_replicas(make_order(spec, rows.size()), spec);
  plan.stages = make_stages(spec, order.placement);
  if (spec.schedule_file) {
    const std::vector<std::string>& of_file = spec.schedule_file->warnings;
    plan.warnings.insert(plan.warnings.end(), of_file.begin(), of_file.end());
  }
  const std::vector<std::vector<std::int32_t>> stages_of = stages_by_worker(plan);
  Buffers buffers(plan);
  for (std::int32_t worker = 0; worker < std::ssize(order.workers); ++worker) {
    buffers.assign(order.workers[static_cast<std::size_t>(worker)], worker,
                   stages_of[static_cast<std::size_t>(worker)]);
  }
  Planner planner(plan, order);
  plan.graph = spec.workers == Workers::one ? planner.one_thread() : planner.one_worker_a_gpu();
  return plan;
}

}  // namespace pdl
