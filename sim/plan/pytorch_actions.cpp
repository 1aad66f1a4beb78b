#include "sim/plan/pytorch_actions.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "sim/io/error.hpp"

namespace pdl {
namespace {

bool is_input_backward(OperationKind kind) {
  return kind == OperationKind::backward || kind == OperationKind::backward_input;
}

/// Where the stages of a pipeline are, and which messages an operation needs and makes.
class Boundaries {
 public:
  explicit Boundaries(const PipelineOrder& order)
      : stages_(order.shape.stages()), workers_(order.shape.workers), placement_(order.placement) {}

  bool is_first(std::int32_t stage) const { return stage == 0; }
  bool is_last(std::int32_t stage) const { return stage == stages_ - 1; }
  std::int32_t worker_of(std::int32_t stage) const { return worker_of_stage(placement_, workers_, stage); }
  /// There is such a stage, on another process.
  bool crosses(std::int32_t stage, std::int32_t other) const {
    return other >= 0 && other < stages_ && worker_of(stage) != worker_of(other);
  }

  bool is_received(const Operation& operation) const {
    if (operation.kind == OperationKind::forward) return crosses(operation.stage, operation.stage - 1);
    return is_input_backward(operation.kind) && crosses(operation.stage, operation.stage + 1);
  }
  bool is_sent(const Operation& operation) const {
    if (operation.kind == OperationKind::forward) return crosses(operation.stage, operation.stage + 1);
    return is_input_backward(operation.kind) && crosses(operation.stage, operation.stage - 1);
  }
  /// The message that brings what it needs, at its own end; the message of its result, at either end.
  Operation receive_for(const Operation& operation) const {
    return {operation.kind == OperationKind::forward ? OperationKind::receive_forward : OperationKind::receive_backward,
            operation.stage, operation.microbatch};
  }
  Operation send_of(const Operation& operation) const {
    return {operation.kind == OperationKind::forward ? OperationKind::send_forward : OperationKind::send_backward,
            operation.stage, operation.microbatch};
  }
  Operation receive_of(const Operation& operation) const {
    const bool goes_on = operation.kind == OperationKind::forward;
    return {goes_on ? OperationKind::receive_forward : OperationKind::receive_backward,
            operation.stage + (goes_on ? 1 : -1), operation.microbatch};
  }

 private:
  std::int32_t stages_, workers_;
  Placement placement_;
};

/// The actions of one process, as they are added.
class Actions {
 public:
  /// -1 for no messages: there is nothing to wait for.
  std::int32_t post(std::vector<Operation> messages) {
    if (messages.empty()) return -1;
    actions_.push_back({PytorchAction::Kind::post, std::move(messages), batches_});
    return batches_++;
  }
  void wait(std::int32_t batch) {
    if (batch >= 0) actions_.push_back({PytorchAction::Kind::wait, {}, batch});
  }
  void compute(Operation operation) {
    operation.overlaps_next = false;
    actions_.push_back({PytorchAction::Kind::compute, {operation}, -1});
  }
  void scale(std::int32_t stage) { actions_.push_back({PytorchAction::Kind::scale, {{.stage = stage}}, -1}); }
  std::vector<PytorchAction> done() && { return std::move(actions_); }

 private:
  std::vector<PytorchAction> actions_;
  std::int32_t batches_ = 0;
};

std::vector<Operation> sends_of(const Boundaries& boundaries, const Operation& operation) {
  return boundaries.is_sent(operation) ? std::vector{boundaries.send_of(operation)} : std::vector<Operation>();
}

std::vector<Operation> receives_for(const Boundaries& boundaries, const Operation& operation) {
  return boundaries.is_received(operation) ? std::vector{boundaries.receive_for(operation)} : std::vector<Operation>();
}

std::vector<Operation> together(std::vector<Operation> first, const std::vector<Operation>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// ScheduleGPipe: a receive is waited for at once, the sends of a direction after its last micro-batch.
std::vector<PytorchAction> gpipe_actions(const Boundaries& boundaries, const std::vector<Operation>& order) {
  Actions actions;
  std::vector<std::int32_t> sends;
  const auto wait_for_sends = [&] {
    for (const std::int32_t batch : sends) actions.wait(batch);
    sends.clear();
  };
  OperationKind direction = OperationKind::forward;
  for (const Operation& operation : order) {
    if (operation.kind != direction) wait_for_sends();
    direction = operation.kind;
    actions.wait(actions.post(receives_for(boundaries, operation)));
    actions.compute(operation);
    sends.push_back(actions.post(sends_of(boundaries, operation)));
  }
  wait_for_sends();
  return std::move(actions).done();
}

/// Schedule1F1B: where the direction turns, the send of the operation before goes with the receive of the next one.
std::vector<PytorchAction> one_f_one_b_actions(const Boundaries& boundaries, const std::vector<Operation>& order) {
  Actions actions;
  std::int32_t sending = -1;
  std::vector<Operation> unsent;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Operation& operation = order[i];
    const bool turns = i > 0 && order[i - 1].kind != operation.kind;
    const bool next_turns = i + 1 < order.size() && order[i + 1].kind != operation.kind;
    actions.wait(actions.post(together(std::exchange(unsent, {}), receives_for(boundaries, operation))));
    actions.compute(operation);
    if (operation.kind == OperationKind::forward || !turns) actions.wait(std::exchange(sending, -1));
    if (next_turns) {
      unsent = sends_of(boundaries, operation);
    } else {
      sending = actions.post(sends_of(boundaries, operation));
    }
  }
  actions.wait(sending);
  return std::move(actions).done();
}

/// REDUCE_GRAD: at the end of a stage's backwards; it divides the gradients, if the schedule does.
constexpr std::int32_t kNoMicrobatch = -1;

Operation reduce_gradients(std::int32_t stage) {
  return {OperationKind::backward_weight, stage, kNoMicrobatch};
}

bool reduces_gradients(const Operation& operation) {
  return operation.microbatch == kNoMicrobatch;
}

/// _PipelineScheduleRuntime: an entry of a process's order. It is empty where FSDP would fetch or let go of parameters:
/// such an entry does nothing here, but takes its turn.
struct Entry {
  std::vector<Operation> operations;  // two: OVERLAP_F_B
};

/// _add_unshard_reshard and _add_reduce_grad.
std::vector<Entry> with_entries_of_fsdp(const std::vector<Operation>& order, std::int32_t microbatches) {
  constexpr std::size_t kMostActiveStages = 3;
  std::vector<Entry> computation;
  for (std::size_t i = 0; i < order.size(); ++i) {
    Entry entry{{order[i]}};
    if (order[i].overlaps_next && i + 1 < order.size()) entry.operations.push_back(order[++i]);
    computation.push_back(std::move(entry));
  }
  std::vector<Entry> entries;
  std::set<std::int32_t> active;
  std::vector<std::pair<std::int32_t, std::int32_t>> done;  // stage, its finished weight gradients
  for (std::size_t i = 0; i < computation.size(); ++i) {
    std::vector<std::int32_t> next;
    for (std::size_t j = i; j < computation.size() && next.size() < kMostActiveStages; ++j) {
      for (const Operation& operation : computation[j].operations) {
        if (std::find(next.begin(), next.end(), operation.stage) == next.end()) next.push_back(operation.stage);
      }
    }
    const auto is_next = [&](std::int32_t stage) { return std::find(next.begin(), next.end(), stage) != next.end(); };
    const auto evicted = std::erase_if(active, [&](std::int32_t stage) { return !is_next(stage); });
    const std::size_t kept = active.size();
    active.insert(next.begin(), next.end());
    entries.resize(entries.size() + evicted + active.size() - kept);
    entries.push_back(computation[i]);
    for (const Operation& operation : computation[i].operations) {
      if (operation.kind != OperationKind::backward && operation.kind != OperationKind::backward_weight) continue;
      auto of_stage = std::find_if(done.begin(), done.end(), [&](auto& d) { return d.first == operation.stage; });
      if (of_stage == done.end()) of_stage = done.insert(done.end(), {operation.stage, 0});
      if (++of_stage->second == microbatches) entries.push_back({{reduce_gradients(operation.stage)}});
    }
  }
  entries.resize(entries.size() + active.size());
  return entries;
}

/// What a process has in its order so far, as far as others ask.
class Placed {
 public:
  void add(const Operation& operation) { known_.insert(key(operation)); }
  bool has(OperationKind kind, std::int32_t stage, std::int32_t microbatch) const {
    return known_.contains(key({kind, stage, microbatch}));
  }
  /// _ready_to_schedule
  bool is_ready(const Operation& operation, const Boundaries& boundaries) const {
    const std::int32_t stage = operation.stage, m = operation.microbatch;
    if (operation.kind == OperationKind::forward)
      return boundaries.is_first(stage) || has(OperationKind::receive_forward, stage, m) ||
             has(OperationKind::forward, stage - 1, m);
    if (!is_input_backward(operation.kind) || boundaries.is_last(stage)) return true;
    return has(OperationKind::receive_backward, stage, m) || has(OperationKind::backward_input, stage + 1, m) ||
           has(OperationKind::backward, stage + 1, m);
  }

 private:
  using Key = std::tuple<OperationKind, std::int32_t, std::int32_t>;
  static Key key(const Operation& operation) { return {operation.kind, operation.stage, operation.microbatch}; }
  std::set<Key> known_;
};

/// _add_send_recv: process after process puts its next entry into its order, and each message that this makes into its
/// own order and into that of the receiver, until all are placed.
std::vector<std::vector<Operation>> with_messages(const PipelineOrder& order, const Boundaries& boundaries) {
  const std::size_t processes = order.workers.size();
  std::vector<std::vector<Entry>> left;
  for (const std::vector<Operation>& operations : order.workers)
    left.push_back(with_entries_of_fsdp(operations, order.shape.microbatches));
  std::vector<std::size_t> at(processes, 0);
  std::vector<Placed> placed(processes);
  std::vector<std::vector<Operation>> lowered(processes);
  const auto add = [&](std::size_t process, const Operation& operation) {
    lowered[process].push_back(operation);
    placed[process].add(operation);
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t p = 0; p < processes; ++p) {
      if (at[p] == left[p].size()) continue;
      const std::vector<Operation>& operations = left[p][at[p]].operations;
      const auto is_ready = [&](const Operation& operation) { return placed[p].is_ready(operation, boundaries); };
      if (!std::all_of(operations.begin(), operations.end(), is_ready)) continue;
      lowered[p].insert(lowered[p].end(), operations.begin(), operations.end());
      for (const Operation& operation : operations) {
        placed[p].add(operation);
        if (!boundaries.is_sent(operation)) continue;
        add(p, boundaries.send_of(operation));
        const Operation receive = boundaries.receive_of(operation);
        add(static_cast<std::size_t>(boundaries.worker_of(receive.stage)), receive);
      }
      ++at[p];
      progress = true;
    }
  }
  for (std::size_t p = 0; p < processes; ++p) {
    if (at[p] < left[p].size())
      throw CannotRun("the schedule: PyTorch finds no order of messages for it (\"Malformed compute schedule\")");
  }
  return lowered;
}

/// _PipelineScheduleRuntime._step_microbatches
std::vector<PytorchAction> runtime_actions(const Boundaries& boundaries, const std::vector<Operation>& order,
                                           bool scales_gradients) {
  Actions actions;
  std::vector<std::pair<Operation, std::int32_t>> received;  // and not yet waited for
  std::vector<std::int32_t> sends;
  for (const Operation& operation : order) {
    if (reduces_gradients(operation)) {
      if (scales_gradients) actions.scale(operation.stage);
      continue;
    }
    switch (operation.kind) {
      case OperationKind::send_forward:
      case OperationKind::send_backward: sends.push_back(actions.post({operation})); continue;
      case OperationKind::receive_forward:
      case OperationKind::receive_backward: received.emplace_back(operation, actions.post({operation})); continue;
      default: break;
    }
    if (boundaries.is_received(operation)) {
      const Operation message = boundaries.receive_for(operation);
      const auto batch =
          std::find_if(received.begin(), received.end(), [&](const auto& r) { return r.first == message; });
      if (batch == received.end()) throw CannotRun("the schedule: an operation without what it receives");
      actions.wait(batch->second);
      received.erase(batch);
    }
    if (boundaries.is_first(operation.stage) && operation.kind == OperationKind::backward_input) continue;
    Operation computed = operation;
    if (boundaries.is_first(operation.stage) && operation.kind == OperationKind::backward_weight)
      computed.kind = OperationKind::backward;
    actions.compute(computed);
  }
  for (; !sends.empty(); sends.pop_back()) actions.wait(sends.back());
  return std::move(actions).done();
}

}  // namespace

std::vector<std::vector<PytorchAction>> pytorch_actions(const PipelineOrder& order, std::string_view pytorch_class,
                                                        bool scales_gradients) {
  const Boundaries boundaries(order);
  std::vector<std::vector<PytorchAction>> all;
  if (pytorch_class != "GPipe" && pytorch_class != "1F1B") {
    for (const std::vector<Operation>& operations : with_messages(order, boundaries))
      all.push_back(runtime_actions(boundaries, operations, scales_gradients));
    return all;
  }
  for (std::size_t p = 0; p < order.workers.size(); ++p) {  // one stage each
    const std::vector<Operation>& operations = order.workers[p];
    all.push_back(pytorch_class == "GPipe" ? gpipe_actions(boundaries, operations)
                                           : one_f_one_b_actions(boundaries, operations));
    if (scales_gradients)
      all.back().push_back({PytorchAction::Kind::scale, {{.stage = static_cast<std::int32_t>(p)}}, -1});
  }
  return all;
}

}  // namespace pdl
