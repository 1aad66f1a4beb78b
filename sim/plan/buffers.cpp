#include "sim/plan/buffers.hpp"

#include <algorithm>
#include <deque>

namespace pdl {
namespace {

/// Bytes that one micro-batch's activations on a stage take: its input and the results of its layers.
std::int64_t activation_bytes(const Plan& plan, const Operation& operation) {
  const Stage& stage = plan.stages[static_cast<std::size_t>(operation.stage)];
  const std::vector<Layer>& layers = plan.spec.model.layers;
  std::int64_t width = layers[static_cast<std::size_t>(stage.first_layer)].in_features;
  for (std::int32_t l = 0; l < stage.layer_count && !plan.spec.recompute; ++l) {
    width += layers[static_cast<std::size_t>(stage.first_layer + l)].out_features;
  }
  return plan.microbatch_rows[static_cast<std::size_t>(operation.microbatch)] * width * bytes_per_activation(plan);
}

bool is_last_backward(OperationKind kind) {
  return kind == OperationKind::backward || kind == OperationKind::backward_weight;
}

class Buffers {
 public:
  explicit Buffers(Plan& plan) : plan_(plan), states_(plan.stages.size()), live_(plan.stages.size(), 0) {
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
        bytes += activation_bytes(plan_, operation);
        most = {std::max(most.count, ++count), std::max(most.bytes, bytes)};
      } else if (is_last_backward(operation.kind)) {
        --live_[s];
        --count;
        bytes -= activation_bytes(plan_, operation);
      }
    }
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
  std::vector<std::int32_t> live_;  // by stage: micro-batches whose activations are kept
};

}  // namespace

std::int64_t bytes_per_activation(const Plan& plan) {
  return is_amp(plan.spec.dtype) && plan.parallel.program == Program::one_thread ? 2 : kBytesPerNumber;
}

void assign_buffers(Plan& plan, const PipelineOrder& order) {
  const std::vector<std::vector<std::int32_t>> stages_of = stages_by_worker(plan.stages, plan.parallel.mesh.gpus());
  Buffers buffers(plan);
  for (std::int32_t worker = 0; worker < std::ssize(order.workers); ++worker) {
    buffers.assign(order.workers[static_cast<std::size_t>(worker)], worker,
                   stages_of[static_cast<std::size_t>(worker)]);
  }
}

LiveActivations live_of_whole_model(const RunSpec& spec, std::int64_t rows) {
  if (rows == 0) return {};
  std::int64_t width = spec.model.layers.front().in_features;
  for (const Layer& layer : spec.model.layers) width += layer.out_features;
  return {1, rows * width * kBytesPerNumber};
}

}  // namespace pdl
