#include "sim/memory/memory.hpp"

#include <algorithm>

#include "sim/memory/allocated_tensors.hpp"
#include "sim/memory/autograd_memory.hpp"
#include "sim/plan/second_stream.hpp"

namespace pdl {
namespace {

std::int64_t largest_microbatch(const Plan& plan) {
  return *std::max_element(plan.microbatch_rows.begin(), plan.microbatch_rows.end());
}

struct StageBytes {
  std::int64_t activations = 0;  // and their gradients: buffers, from the first step on
  std::int64_t other = 0;        // from the first step on
  // At most, while a layer runs:
  std::int64_t temporary_forward = 0;
  std::int64_t temporary_backward = 0;
  std::int64_t temporary_loss = 0;  // while the loss does
};

std::int64_t typed_bytes(std::int64_t numbers, std::int64_t number_bytes) {
  return allocated_bytes(numbers * number_bytes);
}

/// Under autocast the loss is computed in fp32, in tensors of its own: the error of mse; of cross-entropy the logits,
/// where they are half, and their softmax.
std::int64_t loss_bytes(const Plan& plan, std::int64_t numbers, std::int64_t number_bytes) {
  if (!is_amp(plan.spec.dtype)) return 0;
  const bool casts = plan.spec.model.loss == Loss::cross_entropy && number_bytes < kBytesPerNumber;
  return (casts ? 2 : 1) * tensor_bytes(numbers);
}

/// The buffers of runtime/model/pipeline_stage.cpp. `number_bytes`: activation_number_bytes().
StageBytes pipeline_stage_bytes(const Plan& plan, std::size_t index, bool split,
                                const std::vector<std::int64_t>& number_bytes) {
  const Stage& stage = plan.stages[index];
  const bool arrives = !is_first_stage(plan.stages, index) && !is_local_boundary(plan.stages, index);
  const std::int64_t rows = largest_microbatch(plan);
  const bool last = is_last_stage(plan.stages, index);
  const std::int64_t end = stage.first_layer + stage.layer_count;
  const auto bytes_at = [&](std::int64_t l) { return number_bytes[static_cast<std::size_t>(l)]; };
  const std::int64_t out = rows * output_numbers(layer_of(plan, end - 1));
  const std::int64_t input_bytes =
      typed_bytes(rows * input_numbers(layer_of(plan, stage.first_layer)), bytes_at(stage.first_layer));
  const std::int64_t output_bytes = typed_bytes(out, bytes_at(end));
  std::int64_t outputs = 0, inner = 0, statistics = 0;
  std::int64_t inner_gradients = 0, most_inner_gradients = 0, ones_of_a_row = 1;  // of layers made of others
  StageBytes bytes;
  for (std::int64_t l = stage.first_layer; l < end; ++l) {
    const Layer& layer = layer_of(plan, l);
    const std::int64_t result = typed_bytes(rows * output_numbers(layer), bytes_at(l + 1));
    outputs += result;
    if (l + 1 < end) inner += result;
    const PipelineTensors tensors = pipeline_tensors(layer, {rows, plan.spec.dtype, bytes_at(l)});
    statistics += tensor_bytes(tensors.kept);
    const std::int64_t gradients = tensor_bytes(tensors.gradients);
    inner_gradients += gradients;
    bytes.other += tensor_bytes(half_parameters(layer, plan.spec.dtype));
    most_inner_gradients = std::max(most_inner_gradients, gradients);
    ones_of_a_row = std::max(ones_of_a_row, tensors.ones_of_a_row);
    bytes.temporary_forward = std::max(bytes.temporary_forward, tensor_bytes(tensors.temporary_forward));
    bytes.temporary_backward = std::max(bytes.temporary_backward, tensor_bytes(tensors.temporary_backward));
  }
  std::int64_t a_slot = plan.spec.recompute ? output_bytes : outputs + statistics;  // results of the layers
  if (arrives) a_slot += 2 * input_bytes;          // what arrives, and the gradient that goes back
  if (split) a_slot += outputs + inner_gradients;  // the gradients of every layer, kept for the weight gradient
  if (!split && !last) a_slot += output_bytes;     // the gradient that arrives
  std::int64_t shared = 0;
  if (!split) shared += inner + most_inner_gradients;       // gradients between the layers, and inside of one
  if (plan.spec.recompute) shared += outputs + statistics;  // the results again
  if (!split && last) shared += output_bytes;               // the gradient of the loss
  if (last) bytes.temporary_loss = loss_bytes(plan, out, bytes_at(end));
  bytes.activations = stage.slots * a_slot + shared;
  bytes.other += tensor_bytes(rows * ones_of_a_row);                                              // the vector of ones
  if (last) bytes.other += tensor_bytes(static_cast<std::int64_t>(plan.microbatch_rows.size()));  // losses
  return bytes;
}

std::int64_t temporary_bytes(const StageBytes& stage, TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
    case TaskKind::recompute: return stage.temporary_forward;
    case TaskKind::backward:
    case TaskKind::backward_input: return std::max(stage.temporary_backward, stage.temporary_loss);
    case TaskKind::backward_weight: return stage.temporary_backward;
    default: return 0;
  }
}

/// Of a stream's products, as LibTorch gives cuBLAS on Hopper (aten/src/ATen/cuda/CublasHandlePool.cpp), and of each
/// MatrixProducts (runtime/model/matrix_products.cpp).
constexpr std::int64_t kProductWorkspaceBytes = std::int64_t{32} << 20;

/// What a pipeline in another type has less than one in fp32, which is what the probes measure: the workspaces of a
/// GPU's two MatrixProducts, which choose among kernels in fp32 alone.
constexpr std::int64_t kProductWorkspacesBytes = 2 * kProductWorkspaceBytes;

std::int64_t in_data_type(std::int64_t workspace_bytes, Dtype dtype) {
  return dtype == Dtype::fp32 ? workspace_bytes : std::max<std::int64_t>(0, workspace_bytes - kProductWorkspacesBytes);
}

std::vector<GpuMemory> replay_pipeline(const Plan& plan, const WorkspaceBytes& workspace, bool records) {
  const bool split = std::any_of(plan.graph.works.begin(), plan.graph.works.end(),
                                 [](const Work& work) { return work.kind == TaskKind::backward_weight; });
  // What the probes measure is a pipeline whose backwards, where they are whole, try a second stream.
  const std::int64_t one_stream = std::max<std::int64_t>(0, workspace.pipeline - kProductWorkspaceBytes);
  std::vector<std::int64_t> workspaces(static_cast<std::size_t>(plan.spec.gpus), split ? workspace.pipeline_split : 0);
  const auto has_whole_backward = [&](std::int32_t worker, std::int32_t stage) {
    std::int64_t& bytes = workspaces[static_cast<std::size_t>(worker)];
    bytes = std::max(bytes, tries_second_stream(plan, stage) ? workspace.pipeline : one_stream);
  };
  if (split) {  // on some workers all, on others some
    for (const Task& task : plan.graph.tasks) {
      if (task.kind == TaskKind::backward) has_whole_backward(task.worker, task.stage);
    }
  } else {
    for (std::int32_t s = 0; s < std::ssize(plan.stages); ++s)
      has_whole_backward(only_worker(plan.stages[static_cast<std::size_t>(s)]), s);
  }
  std::vector<GpuMemory> memory(workspaces.size());
  for (std::size_t g = 0; g < memory.size(); ++g) {
    memory[g].records = records;
    memory[g].hold(MemoryCategory::workspaces, in_data_type(workspaces[g], plan.spec.dtype));
  }
  const std::vector<std::int64_t> number_bytes = activation_number_bytes(plan.spec.model, plan.spec.dtype);
  std::vector<StageBytes> stages;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    GpuMemory& of_gpu = memory[static_cast<std::size_t>(only_worker(stage))];
    stages.push_back(pipeline_stage_bytes(plan, s, split, number_bytes));
    of_gpu.hold(MemoryCategory::parameters, parameter_bytes(plan, stage, 1));
    of_gpu.hold(MemoryCategory::gradients, parameter_bytes(plan, stage, 1));
    of_gpu.hold(MemoryCategory::optimizer_state, optimizer_bytes(plan, stage));
    of_gpu.hold(MemoryCategory::activations, stages.back().activations);
    of_gpu.hold(MemoryCategory::other, data_bytes(plan, s) + stages.back().other);
  }
  const auto run_layers = [&](TaskId task, std::int32_t worker, std::int32_t stage, TaskKind kind) {
    const std::int64_t temporary = temporary_bytes(stages[static_cast<std::size_t>(stage)], kind);
    GpuMemory& of_gpu = memory[static_cast<std::size_t>(worker)];
    of_gpu.take(task, MemoryCategory::other, temporary);
    of_gpu.give(task, MemoryCategory::other, temporary);
  };
  if (!records) {  // of the peak, one forward and one backward of a stage say as much as all of them
    for (std::int32_t s = 0; s < std::ssize(plan.stages); ++s) {
      const std::int32_t worker = only_worker(plan.stages[static_cast<std::size_t>(s)]);
      for (const TaskKind kind : {TaskKind::forward, TaskKind::backward}) run_layers(0, worker, s, kind);
    }
    return memory;
  }
  for (TaskId id = 0; id < plan.graph.tasks.size(); ++id) {
    const Task& task = plan.graph.tasks[id];
    run_layers(id, task.worker, task.stage, task.kind);
  }
  return memory;
}

std::vector<GpuMemory> replay(const Plan& plan, const WorkspaceBytes& workspace, bool records) {
  if (plan.parallel.program == Program::pipeline) return replay_pipeline(plan, workspace, records);
  std::vector<GpuMemory> memory = replay_autograd(plan, workspace.multiprocessors, records);
  for (GpuMemory& of_gpu : memory) {
    if (of_gpu.peak_bytes == 0) continue;  // it has nothing to do
    of_gpu.at_start[static_cast<std::size_t>(MemoryCategory::workspaces)] += workspace.autograd;
    of_gpu.peak_bytes += workspace.autograd;
  }
  return memory;
}

}  // namespace

std::vector<GpuMemory> replay_memory(const Plan& plan, const WorkspaceBytes& workspace) {
  return replay(plan, workspace, /*records=*/true);
}

std::vector<std::int64_t> predict_memory_bytes(const Plan& plan, const WorkspaceBytes& workspace) {
  std::vector<std::int64_t> bytes;
  for (const GpuMemory& of_gpu : replay(plan, workspace, /*records=*/false)) bytes.push_back(of_gpu.peak_bytes);
  return bytes;
}

}  // namespace pdl
