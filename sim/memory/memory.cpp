#include "sim/memory/memory.hpp"

#include <algorithm>

#include "sim/memory/allocated_tensors.hpp"
#include "sim/memory/autograd_memory.hpp"

namespace pdl {
namespace {

std::int64_t largest_microbatch(const Plan& plan) {
  return *std::max_element(plan.microbatch_rows.begin(), plan.microbatch_rows.end());
}

struct StageBytes {
  std::int64_t buffers = 0;    // from the first step on
  std::int64_t temporary = 0;  // at most, while a layer runs
};

/// The buffers of runtime/model/pipeline_stage.cpp.
StageBytes pipeline_stage_bytes(const Plan& plan, std::size_t index, bool split) {
  const Stage& stage = plan.stages[index];
  const bool arrives = !is_first_stage(plan.stages, index) && !is_local_boundary(plan.stages, index);
  const std::int64_t rows = largest_microbatch(plan);
  const bool last = is_last_stage(plan.stages, index);
  const std::int64_t in = input_numbers(layer_of(plan, stage.first_layer));
  const std::int64_t out = output_numbers(layer_of(plan, stage.first_layer + stage.layer_count - 1));
  std::int64_t outputs = 0, inner = 0, statistics = 0, temporary = 0;
  for (std::int32_t l = 0; l < stage.layer_count; ++l) {
    const Layer& layer = layer_of(plan, stage.first_layer + l);
    const std::int64_t result = tensor_bytes(rows * output_numbers(layer));
    outputs += result;
    if (l + 1 < stage.layer_count) inner += result;
    const PipelineTensors tensors = pipeline_tensors(layer, rows);
    statistics += tensors.row_statistics * tensor_bytes(rows);
    temporary =
        std::max({temporary, tensor_bytes(tensors.temporary_forward), tensor_bytes(tensors.temporary_backward)});
  }
  std::int64_t a_slot = plan.spec.recompute ? tensor_bytes(rows * out) : outputs + statistics;  // results of the layers
  if (arrives) a_slot += 2 * tensor_bytes(rows * in);  // what arrives, and the gradient that goes back
  if (split) a_slot += outputs;                        // the gradients of every layer, kept for the weight gradient
  if (!split && !last) a_slot += tensor_bytes(rows * out);  // the gradient that arrives
  std::int64_t shared = tensor_bytes(rows);                 // the vector of ones
  if (!split) shared += inner;                              // gradients between the layers
  if (plan.spec.recompute) shared += outputs + statistics;  // the results again
  if (!split && last) shared += tensor_bytes(rows * out);   // the gradient of the loss
  if (last) shared += tensor_bytes(static_cast<std::int64_t>(plan.microbatch_rows.size()));
  return {stage.slots * a_slot + shared, temporary};
}

}  // namespace

std::vector<std::int64_t> predict_memory_bytes(const Plan& plan, const WorkspaceBytes& workspace) {
  std::vector<std::int64_t> bytes;
  if (plan.parallel.program != Program::pipeline) {
    bytes = replay_autograd(plan, workspace.multiprocessors);
    for (std::size_t g = 0; g < bytes.size(); ++g) bytes[g] += bytes[g] > 0 ? workspace.autograd : 0;
    return bytes;
  }
  const bool split = std::any_of(plan.graph.works.begin(), plan.graph.works.end(),
                                 [](const Work& work) { return work.kind == TaskKind::backward_weight; });
  // Only a whole backward uses the second stream, and its workspace.
  bytes.assign(static_cast<std::size_t>(plan.spec.gpus), workspace.pipeline_split);
  for (const Task& task : plan.graph.tasks) {
    if (task.kind == TaskKind::backward) bytes[static_cast<std::size_t>(task.worker)] = workspace.pipeline;
  }
  std::vector<std::int64_t> temporary(bytes.size(), 0);  // of one layer at a time
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto worker = static_cast<std::size_t>(only_worker(plan.stages[s]));
    const StageBytes stage = pipeline_stage_bytes(plan, s, split);
    bytes[worker] += parameter_bytes(plan, plan.stages[s], 2) + optimizer_bytes(plan, plan.stages[s]) +
                     data_bytes(plan, s) + stage.buffers;
    temporary[worker] = std::max(temporary[worker], stage.temporary);
  }
  for (std::size_t g = 0; g < bytes.size(); ++g) bytes[g] += temporary[g];
  return bytes;
}

}  // namespace pdl
