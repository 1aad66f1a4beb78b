#include "sim/plan/buffers.hpp"

#include <algorithm>
#include <deque>

#include "sim/model/checkpointed_layers.hpp"

namespace pdl {
namespace {

/// Bytes that one micro-batch's activations on a stage take: what its layers keep; with recomputation its input alone,
/// of autograd's programs that of each checkpointed layer.
std::int64_t activation_bytes(const Plan& plan, const Operation& operation,
                              const std::vector<std::int64_t>& number_bytes) {
  const Stage& stage = plan.stages[static_cast<std::size_t>(operation.stage)];
  const std::int64_t rows = plan.microbatch_rows[static_cast<std::size_t>(operation.microbatch)];
  const RunSpec& spec = plan.spec;
  if (plan.parallel.program != Program::pipeline) {
    const auto kept = spec.recompute ? kept_by_checkpoints : kept_by_autograd;
    return kept(spec.model, stage.first_layer, stage.layer_count, rows, spec.dtype, number_bytes);
  }
  return kept_by_pipeline(spec.model, stage.first_layer, spec.recompute ? 0 : stage.layer_count, rows, spec.dtype,
                          number_bytes);
}

bool is_last_backward(OperationKind kind) {
  return kind == OperationKind::backward || kind == OperationKind::backward_weight;
}

class LiveCount {
 public:
  explicit LiveCount(Plan& plan)
      : plan_(plan),
        number_bytes_(activation_number_bytes(plan.spec.model, plan.spec.dtype)),
        stages_(plan.stages.size()) {}

  void count(const std::vector<Operation>& order, std::int32_t worker) {
    std::int64_t bytes = 0;
    std::int32_t count = 0;
    LiveActivations& most = plan_.live[static_cast<std::size_t>(worker)];
    for (const Operation& operation : order) {
      const auto s = static_cast<std::size_t>(operation.stage);
      if (operation.kind == OperationKind::forward) {
        Stage& stage = plan_.stages[s];
        stage.live_microbatches = std::max(stage.live_microbatches, ++stages_[s].live);
        bytes += bytes_of(operation);
        most = {std::max(most.count, ++count), std::max(most.bytes, bytes)};
      } else if (is_last_backward(operation.kind)) {
        --stages_[s].live;
        --count;
        bytes -= bytes_of(operation);
      }
    }
  }

 private:
  struct OfStage {
    std::int32_t live = 0;  // micro-batches whose activations are kept
    // Of the micro-batch that was asked for last: most have as many samples as the one before.
    std::int64_t rows = -1, bytes = 0;
  };

  std::int64_t bytes_of(const Operation& operation) {
    OfStage& of = stages_[static_cast<std::size_t>(operation.stage)];
    const std::int64_t rows = plan_.microbatch_rows[static_cast<std::size_t>(operation.microbatch)];
    if (of.rows != rows) of.bytes = activation_bytes(plan_, operation, number_bytes_);
    of.rows = rows;
    return of.bytes;
  }

  Plan& plan_;
  std::vector<std::int64_t> number_bytes_;  // of what goes between two layers
  std::vector<OfStage> stages_;
};

class Buffers {
 public:
  explicit Buffers(Plan& plan) : plan_(plan), states_(plan.stages.size()) {
    for (std::size_t s = 0; s < plan.stages.size(); ++s) local_boundary_.push_back(is_local_boundary(plan.stages, s));
    local_boundary_.push_back(false);
    plan_.slots.assign(plan.stages.size(), std::vector<std::int32_t>(plan.microbatch_rows.size(), 0));
  }

  /// `own`: the stages of the worker.
  void assign(const std::vector<Operation>& order, const std::vector<std::int32_t>& own) {
    walk(order);  // how many are held at once
    for (const std::int32_t s : own) {
      Stage& stage = plan_.stages[static_cast<std::size_t>(s)];
      const bool arrives =
          !is_first_stage(plan_.stages, static_cast<std::size_t>(s)) && !local_boundary_[static_cast<std::size_t>(s)];
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

  void walk(const std::vector<Operation>& order) {
    for (const Operation& operation : order) {
      if (operation.kind == OperationKind::forward) take(operation.stage, operation.microbatch);
      if (!is_last_backward(operation.kind)) continue;
      give(operation.stage, operation.microbatch);
      if (local_boundary_[static_cast<std::size_t>(operation.stage)]) give(operation.stage - 1, operation.microbatch);
    }
  }

  void take(std::int32_t stage, std::int32_t microbatch) {
    State& of = state(stage);
    if (of.readers.empty()) of.readers.resize(plan_.microbatch_rows.size(), 0);
    const bool read_above = local_boundary_[static_cast<std::size_t>(stage) + 1];
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
  std::vector<bool> local_boundary_;  // by stage, below it; and a last one
  std::vector<State> states_;
};

}  // namespace

void assign_buffers(Plan& plan, const StepOrder& order) {
  const std::vector<std::vector<std::int32_t>> stages_of = stages_by_worker(plan.stages, plan.parallel.mesh.gpus());
  Buffers buffers(plan);
  LiveCount live(plan);
  for (std::int32_t worker = 0; worker < order.workers(); ++worker) {
    const std::vector<Operation> operations = order.of_worker(worker);
    live.count(operations, worker);
    buffers.assign(operations, stages_of[static_cast<std::size_t>(worker)]);
  }
}

void count_live_activations(Plan& plan, const StepOrder& order) {
  LiveCount live(plan);
  for (std::int32_t worker = 0; worker < order.workers(); ++worker) live.count(order.of_worker(worker), worker);
}

LiveActivations live_of_whole_model(const RunSpec& spec, std::int64_t rows) {
  if (rows == 0) return {};
  const auto kept = spec.recompute ? kept_by_checkpoints : kept_by_autograd;
  return {1, kept(spec.model, 0, std::ssize(spec.model.layers), rows, spec.dtype,
                  activation_number_bytes(spec.model, spec.dtype))};
}

}  // namespace pdl
