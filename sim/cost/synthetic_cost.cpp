// Textbook costs: sim/cost/price.hpp, price_synthetic.
#include <algorithm>
#include <cmath>

#include "sim/cost/price.hpp"
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

/// Throws InputError for what is no time: costs may also be made by code, not read.
std::int64_t synthetic_ns(double ms) {
  if (!(ms >= 0 && ms <= kLargestSyntheticCostMs)) {
    throw InputError("synthetic costs", to_text(ms) + " ms",
                     "a time from 0 to " + to_text(kLargestSyntheticCostMs) + " ms");
  }
  return std::llround(ms * 1e6);
}

std::int64_t part_of(std::int64_t ns, double share) {
  return std::llround(static_cast<double>(ns) * share);
}

/// Of one stage; the weight gradient is half of a backward whose parts are not given.
struct StageTimes {
  StageTimes(const SyntheticCosts& costs, std::size_t stage)
      : forward_ns(synthetic_ns(of_stage(costs.tf_ms, stage))),
        backward_ns(synthetic_ns(of_stage(costs.tb_ms, stage))) {
    weight_ns = costs.tw_ms ? synthetic_ns(of_stage(*costs.tw_ms, stage)) : backward_ns / 2;
    input_ns = costs.tw_ms ? backward_ns : backward_ns - weight_ns;
    backward_ns = input_ns + weight_ns;
  }
  std::int64_t forward_ns, backward_ns, input_ns = 0, weight_ns = 0;
};

/// By layer: the times of the stage that it is in.
std::vector<std::uint32_t> stages_of_layers(const Plan& plan) {
  std::vector<std::uint32_t> stages;
  for (const Stage& stage : plan.stages) {
    if (stage.replica > 0) break;
    stages.insert(stages.end(), static_cast<std::size_t>(stage.layer_count),
                  static_cast<std::uint32_t>(&stage - plan.stages.data()));
  }
  return stages;
}

}  // namespace

std::vector<TaskCost> price_synthetic(const Plan& plan, const SyntheticCosts& costs) {
  const std::vector<std::uint32_t> stage_of_layer = stages_of_layers(plan);
  const auto stage_of = [&](std::int32_t layer) {  // a part of no layers, the loss alone, begins behind the last one
    return stage_of_layer[std::min(static_cast<std::size_t>(layer), stage_of_layer.size() - 1)];
  };
  std::vector<StageTimes> times;
  for (std::size_t stage = 0; stage <= stage_of_layer.back(); ++stage) times.emplace_back(costs, stage);
  // The parts of a stage's backward, and of a forward that is run again, add up to it, to the nanosecond.
  const auto of_layers = [&](const Work& work, std::int64_t ns) {
    const Stage& stage = plan.stages[stage_of(work.first_layer)];
    const auto until = [&](std::int32_t layer) {
      return part_of(ns, static_cast<double>(layer - stage.first_layer) / stage.layer_count);
    };
    return until(work.first_layer + work.layer_count) - until(work.first_layer);
  };
  const double all_bytes = static_cast<double>(parameters(plan.spec.model) * kBytesPerNumber);
  const std::int64_t transfer_ns = synthetic_ns(costs.tcomm_ms);
  std::vector<TaskCost> priced;
  for (const Work& work : plan.graph.works) {
    const StageTimes& stage = times[stage_of(work.first_layer)];
    switch (work.kind) {
      case TaskKind::forward: priced.push_back(device_only(stage.forward_ns)); break;
      case TaskKind::recompute: priced.push_back(device_only(of_layers(work, stage.forward_ns))); break;
      case TaskKind::backward: priced.push_back(device_only(of_layers(work, stage.backward_ns))); break;
      case TaskKind::backward_input: priced.push_back(device_only(stage.input_ns)); break;
      case TaskKind::backward_weight: priced.push_back(device_only(stage.weight_ns)); break;
      case TaskKind::optimizer:
      case TaskKind::loss:
      case TaskKind::scale_gradients:
      case TaskKind::scatter:
      case TaskKind::gather:
      case TaskKind::bucket_copy_in:
      case TaskKind::bucket_copy_out: priced.push_back(device_only(0)); break;
      case TaskKind::sleep: priced.push_back({0, work.sleep_ns, 0, work.sleep_ns}); break;
      case TaskKind::all_reduce:
      case TaskKind::broadcast:
      case TaskKind::reduce:
        priced.push_back(device_only(part_of(transfer_ns, static_cast<double>(work.bytes) / all_bytes)));
        break;
      case TaskKind::send_forward:
      case TaskKind::send_backward:
      case TaskKind::receive_forward:
      case TaskKind::receive_backward: priced.push_back(device_only(transfer_ns)); break;
    }
  }
  return priced;
}

}  // namespace pdl
