#include "sim/plan/pipeline_step.hpp"

#include <algorithm>

#include "sim/io/large_array.hpp"
#include "sim/plan/gradient_exchange.hpp"
#include "sim/plan/stage_tasks.hpp"

namespace pdl {
namespace {

/// Where an operation's input comes from and its result goes to.
struct Route {
  bool forward = true;
  std::int32_t source = -1;  // stage; -1: none
  std::int32_t target = -1;
};

/// Of an operation: what brings its input (a transfer, or the stage before on the same worker), and the task that needs
/// it.
struct Input {
  TaskId fed_by = kNone;
  TaskId needed_by = kNone;
};

/// Of a stage and a micro-batch.
struct Cell {
  Input forward, backward;
};

class PipelineStep {
 public:
  PipelineStep(const Plan& plan, const StepOrder& order)
      : plan_(plan),
        spec_(plan.spec),
        order_(order),
        microbatches_(static_cast<std::int32_t>(plan.microbatch_rows.size())),
        stages_(static_cast<std::int32_t>(plan.stages.size())) {}

  TaskGraph build(std::int32_t workers) && {
    const std::size_t cells = static_cast<std::size_t>(stages_) * static_cast<std::size_t>(microbatches_);
    reserve_large(cells_, cells);
    cells_.resize(cells);
    builder_.reserve((spec_.p2p == PointToPoint::rendezvous ? 6 : 4) * cells);
    const std::vector<std::vector<std::int32_t>> stages_of = stages_by_worker(plan_.stages, order_.workers());
    for (std::int32_t worker = 0; worker < workers; ++worker) {
      add_worker(worker, stages_of[static_cast<std::size_t>(worker)]);
    }
    join(&Cell::forward);
    join(&Cell::backward);
    const auto all = static_cast<std::uint32_t>(order_.workers());  // also where only some of them have tasks
    return std::move(builder_).build(all, all);
  }

 private:
  void add_worker(std::int32_t worker, const std::vector<std::int32_t>& own_stages) {
    const auto host = static_cast<std::uint32_t>(worker);
    previous_ = kNone;
    const std::vector<Operation> operations = order_.of_worker(worker);
    const std::vector<bool> exchanges = exchange_.complete_after(operations);
    tasks_.add_straggler(worker, host);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& operation = operations[i];
      is_transfer(task_kind(operation.kind)) ? add_explicit_transfer(operation) : add_operation(operation);
      if (exchanges[i]) exchange_.add(operation, host);
    }
    for (const std::int32_t stage : own_stages) exchange_.wait(stage, tasks_.add_optimizer(stage, host));
  }

  Route route_of(const Operation& operation) const {
    const std::int32_t stage = operation.stage;
    const bool first = tasks_.is_first(stage), last = tasks_.is_last(stage);
    if (operation.kind == OperationKind::backward_weight) return {.forward = false};
    if (operation.kind == OperationKind::forward) return {true, first ? -1 : stage - 1, last ? -1 : stage + 1};
    return {false, last ? -1 : stage + 1, first ? -1 : stage - 1};
  }

  std::size_t cell(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(microbatches_) +
           static_cast<std::size_t>(microbatch);
  }

  bool messages_are_given() const {
    return spec_.schedule_file && spec_.schedule_file->has_transfers && spec_.p2p == PointToPoint::rendezvous;
  }

  bool crosses(std::int32_t stage, std::int32_t other) const {
    return other >= 0 && tasks_.worker_of(other) != tasks_.worker_of(stage);
  }

  /// The receive (if the transport has one), the operation, and the send of its result.
  void add_operation(const Operation& operation) {
    const std::int32_t stage = operation.stage, microbatch = operation.microbatch;
    const Route route = route_of(operation);
    const auto host = static_cast<std::uint32_t>(tasks_.worker_of(stage));
    const TaskId received = add_receive(route, operation, host);
    if (spec_.recompute && operation.kind == OperationKind::backward) {
      tasks_.add_compute(TaskKind::recompute, stage, microbatch, host);  // need not wait for the gradient
    }
    if (operation.kind == OperationKind::backward || operation.kind == OperationKind::backward_input) {
      tasks_.add_delay(stage, microbatch, host);
    }
    const TaskId task = tasks_.add_compute(task_kind(operation.kind), stage, microbatch, host);
    if (tasks_.last_gradient(stage) == task) exchange_.wait(stage, task);  // adds to what is being exchanged
    if (received != kNone) builder_.add_edge(received, task);
    if (messages_are_given() && previous_ != kNone) builder_.add_edge(previous_, task);
    const bool is_fed =
        route.source >= 0 && received == kNone && !(crosses(stage, route.source) && messages_are_given());
    if (is_fed) input_of(route, stage, microbatch).needed_by = task;
    previous_ = task;
    if (route.target >= 0) add_result(route, operation, task, host);
  }

  /// kNone where what comes is not a task of the receiver.
  TaskId add_receive(const Route& route, const Operation& operation, std::uint32_t host) {
    if (!crosses(operation.stage, route.source)) return kNone;
    if (spec_.p2p != PointToPoint::rendezvous || messages_are_given()) return kNone;
    const TaskKind kind = route.forward ? TaskKind::receive_forward : TaskKind::receive_backward;
    const TaskId received = add_transfer(kind, route.source, operation.stage, operation.microbatch, host);
    if (previous_ != kNone) builder_.add_edge(previous_, received);
    return received;
  }

  /// What the stage of the target needs: the task itself on the same worker, else the message.
  void add_result(const Route& route, const Operation& operation, TaskId task, std::uint32_t host) {
    TaskId& feed = input_of(route, route.target, operation.microbatch).fed_by;
    if (!crosses(operation.stage, route.target)) {
      feed = task;
    } else if (!messages_are_given()) {
      const TaskKind kind = route.forward ? TaskKind::send_forward : TaskKind::send_backward;
      feed = add_transfer(kind, operation.stage, route.target, operation.microbatch, host);
      builder_.add_edge(task, feed);
    }
  }

  /// A message where the schedule's file puts it: with rendezvous it holds its worker until both ends are there. Eager
  /// messages hold nobody: they leave beside the operation that makes them.
  void add_explicit_transfer(const Operation& operation) {
    if (!messages_are_given()) return;
    const TaskKind kind = task_kind(operation.kind);
    const bool sends = is_send(kind);
    const std::int32_t other = other_stage(kind, operation.stage);
    const TaskId task =
        add_transfer(kind, sends ? operation.stage : other, sends ? other : operation.stage, operation.microbatch,
                     static_cast<std::uint32_t>(tasks_.worker_of(operation.stage)));
    if (previous_ != kNone) builder_.add_edge(previous_, task);
    previous_ = task;
  }

  TaskId add_transfer(TaskKind kind, std::int32_t from_stage, std::int32_t to_stage, std::int32_t microbatch,
                      std::uint32_t host) {
    const std::int32_t stage = is_send(kind) ? from_stage : to_stage;
    const std::uint32_t group =
        spec_.p2p == PointToPoint::rendezvous ? pair_of(kind, std::max(from_stage, to_stage), microbatch) : kNone;
    return builder_.add_task({tasks_.transfer_work(kind, from_stage, to_stage, microbatch),
                              stream_of_transfer(kind, from_stage, to_stage), host, group, tasks_.worker_of(stage),
                              stage, microbatch, kind});
  }

  /// The boundary below the higher stage, the micro-batch and the direction name the pair of a send and its receive.
  std::uint32_t pair_of(TaskKind kind, std::int32_t higher_stage, std::int32_t microbatch) {
    std::vector<std::uint32_t>& groups = carries_activations(kind) ? groups_forward_ : groups_backward_;
    groups.resize(static_cast<std::size_t>(stages_) * static_cast<std::size_t>(microbatches_), kNone);
    std::uint32_t& of_pair = groups[cell(higher_stage, microbatch)];
    if (of_pair == kNone) of_pair = builder_.add_group();
    return of_pair;
  }

  /// The lane is that of the lower stage of the boundary, at both ends. A textbook's message, which nobody waits to
  /// send, takes its link in the order in which its GPU has made the messages: no GPU waits, and none can overtake.
  std::uint32_t stream_of_transfer(TaskKind kind, std::int32_t from_stage, std::int32_t to_stage) const {
    const std::int32_t from = tasks_.worker_of(from_stage), to = tasks_.worker_of(to_stage);
    const auto of_replica = static_cast<std::int32_t>(plan_.parallel.mesh.pp);
    if (spec_.synthetic && spec_.p2p == PointToPoint::eager)
      return link_of(from, to, from / of_replica * of_replica, of_replica);
    const bool forward = carries_activations(kind);
    const StreamRole role = is_send(kind) ? (forward ? StreamRole::send_forward : StreamRole::send_backward)
                                          : (forward ? StreamRole::receive_forward : StreamRole::receive_backward);
    return stream_of(is_send(kind) ? from : to, role, chunk_of(std::min(from_stage, to_stage)));
  }

  std::int32_t chunk_of(std::int32_t stage) const {
    const auto of_replica = static_cast<std::int32_t>(plan_.parallel.mesh.pp);
    return stage % static_cast<std::int32_t>(of_replica * spec_.chunks) / of_replica;
  }

  Input& input_of(const Route& route, std::int32_t stage, std::int32_t microbatch) {
    Cell& of = cells_[cell(stage, microbatch)];
    return route.forward ? of.forward : of.backward;
  }

  void join(Input Cell::* direction) {
    for (const Cell& cell : cells_) {
      const Input& input = cell.*direction;
      if (input.fed_by != kNone && input.needed_by != kNone) builder_.add_edge(input.fed_by, input.needed_by);
    }
  }

  const Plan& plan_;
  const RunSpec& spec_;
  const StepOrder& order_;
  std::int32_t microbatches_;
  std::int32_t stages_;
  TaskGraphBuilder builder_;
  StageTasks tasks_{plan_, builder_};
  GradientExchange exchange_{plan_, tasks_, builder_};
  TaskId previous_ = kNone;  // of the worker whose operations are being added: its last operation or given message
  // By stage and micro-batch: what the operations need, the pair's group.
  std::vector<Cell> cells_;
  std::vector<std::uint32_t> groups_forward_, groups_backward_;
};

}  // namespace

TaskGraph pipeline_step(const Plan& plan, const StepOrder& order, std::int32_t workers) {
  return PipelineStep(plan, order).build(workers);
}

}  // namespace pdl
