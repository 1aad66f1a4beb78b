#include "sim/report/memory.hpp"

#include <algorithm>

namespace pdl {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;

std::int64_t tensor_bytes(std::int64_t numbers) { return allocated_bytes(numbers * kBytesPerNumber); }

const Layer& layer_of(const Plan& plan, std::int64_t index) {
  return plan.spec.model.layers[static_cast<std::size_t>(index)];
}

std::int64_t largest_microbatch(const Plan& plan) {
  return *std::max_element(plan.microbatch_rows.begin(), plan.microbatch_rows.end());
}

/// `copies` tensors like each weight and bias of the stage: 1 for the parameters, 1 for the gradients, 2 for Adam.
std::int64_t parameter_bytes(const Plan& plan, const Stage& stage, std::int64_t copies) {
  std::int64_t bytes = 0;
  for (std::int32_t l = stage.first_layer; l < stage.first_layer + stage.layer_count; ++l) {
    const auto [in, out] = layer_of(plan, l);
    bytes += copies * (tensor_bytes(in * out) + tensor_bytes(out));
  }
  return bytes;
}

/// The two moments of Adam. The fused one also keeps the step count of each weight and bias on the device.
std::int64_t optimizer_bytes(const Plan& plan, const Stage& stage) {
  if (plan.spec.optimizer == Optimizer::sgd) return 0;
  const bool fused = plan.spec.workers != Workers::one && !is_data_parallel(plan.spec);
  return parameter_bytes(plan, stage, 2) + (fused ? 2 * stage.layer_count * tensor_bytes(1) : 0);
}

/// The batch of its replica on the first stage's GPU, the targets on the last one's; DataParallel has all on GPU 0.
std::int64_t data_bytes(const Plan& plan, std::size_t stage) {
  const bool on_first_gpu = plan.spec.strategy == Strategy::dp;
  if (on_first_gpu && stage > 0) return 0;
  const std::int64_t rows = on_first_gpu ? plan.spec.batch : plan.replica_rows[static_cast<std::size_t>(plan.stages[stage].replica)];
  std::int64_t bytes = 0;
  if (is_first_stage(plan.stages, stage)) bytes += tensor_bytes(rows * plan.spec.model.layers.front().in_features);
  if (is_last_stage(plan.stages, stage)) bytes += tensor_bytes(rows * plan.spec.model.layers.back().out_features);
  return bytes;
}

/// The buffers of runtime/model/pipeline_stage.cpp.
std::int64_t pipeline_buffer_bytes(const Plan& plan, std::size_t index, bool split) {
  const Stage& stage = plan.stages[index];
  const bool arrives = !is_first_stage(plan.stages, index) && !is_local_boundary(plan.stages, index);
  const std::int64_t rows = largest_microbatch(plan);
  const bool last = is_last_stage(plan.stages, index);
  const std::int64_t in = layer_of(plan, stage.first_layer).in_features;
  const std::int64_t out = layer_of(plan, stage.first_layer + stage.layer_count - 1).out_features;
  std::int64_t outputs = 0, inner = 0;
  for (std::int32_t l = 0; l < stage.layer_count; ++l) {
    const std::int64_t width = layer_of(plan, stage.first_layer + l).out_features;
    outputs += tensor_bytes(rows * width);
    if (l + 1 < stage.layer_count) inner += tensor_bytes(rows * width);
  }
  std::int64_t a_slot = plan.spec.recompute ? tensor_bytes(rows * out) : outputs;  // results of the layers
  if (arrives) a_slot += 2 * tensor_bytes(rows * in);   // what arrives, and the gradient that goes back
  if (split) a_slot += outputs;                         // the gradients of every layer, kept for the weight gradient
  if (!split && !last) a_slot += tensor_bytes(rows * out);  // the gradient that arrives
  std::int64_t shared = tensor_bytes(rows);             // the vector of ones
  if (!split) shared += inner;                          // gradients between the layers
  if (plan.spec.recompute) shared += outputs;           // the results again
  if (!split && last) shared += tensor_bytes(rows * out);  // the gradient of the loss
  if (last) shared += tensor_bytes(static_cast<std::int64_t>(plan.microbatch_rows.size()));
  return stage.slots * a_slot + shared;
}

/// Bytes in use on one GPU, and the most there ever were.
struct Level {
  std::int64_t now = 0;
  std::int64_t peak = 0;
  void take(std::int64_t bytes) { peak = std::max(peak, now += bytes); }
  void give(std::int64_t bytes) { now -= bytes; }
};

/// A result of a layer: half precision under autocast.
std::int64_t result_bytes(const Plan& plan, std::int64_t numbers) {
  return is_amp(plan.spec.dtype) ? allocated_bytes(numbers * kBytesPerNumber / 2) : tensor_bytes(numbers);
}

/// Autocast's copies of a layer's weight and bias, which are kept to the end of the backward.
std::int64_t cast_bytes(const Plan& plan, std::int64_t l) {
  const auto [in, out] = layer_of(plan, l);
  return is_amp(plan.spec.dtype) ? result_bytes(plan, in * out) + result_bytes(plan, out) : 0;
}

void replay_forward(const Plan& plan, const Work& work, Level& level) {
  if (is_amp(plan.spec.dtype) && work.first_layer == 0) level.take(result_bytes(plan, work.rows * layer_of(plan, 0).in_features));
  for (std::int32_t l = work.first_layer; l < work.first_layer + work.layer_count; ++l) {
    const std::int64_t result = result_bytes(plan, work.rows * layer_of(plan, l).out_features);
    level.take(cast_bytes(plan, l));
    level.take(result);  // of the Linear: nobody keeps it
    level.take(result);  // of the ReLU
    level.give(result);
  }
}

void replay_backward(const Plan& plan, const Work& work, std::int32_t replica, Level& level) {
  for (std::int32_t l = work.first_layer + work.layer_count; l-- > work.first_layer;) {
    const auto [in, out] = layer_of(plan, l);
    const std::int64_t result = result_bytes(plan, work.rows * out);
    level.take(result);  // gradient before the ReLU
    const bool input_gradient = l > 0;
    if (input_gradient) level.take(result_bytes(plan, work.rows * in));
    const std::int64_t gradients = tensor_bytes(in * out) + tensor_bytes(out);
    const std::int64_t in_half = cast_bytes(plan, l);  // as large as the copies: the gradients before their cast
    level.take(in_half);
    level.take(gradients);
    level.give(2 * in_half);
    // Measured (PyTorch 2.11): what the ReLU's backward has used, its result and both gradients, is still there while the
    // Linear's gradients are made.
    level.give(3 * result);
    // DataParallel's replicas: the weight of a layer goes with its backward.
    if (plan.spec.strategy == Strategy::dp && replica > 0 && l > 0) level.give(tensor_bytes(in * out));
    // Added to what is there, or copied into a bucket that is the gradient.
    if (work.accumulate || plan.spec.bucket_views) level.give(gradients);
  }
}

/// The gradient of the loss in fp32, and what its mean takes on the way.
void replay_loss(const Plan& plan, std::int64_t numbers, Level& level) {
  const std::int64_t in_fp32 = is_amp(plan.spec.dtype) ? tensor_bytes(numbers) : 0;
  level.take(in_fp32 + 2 * tensor_bytes(numbers));
  level.give(2 * tensor_bytes(numbers));
  level.take(tensor_bytes(numbers));
  if (is_amp(plan.spec.dtype)) level.take(result_bytes(plan, numbers));
  if (is_amp(plan.spec.dtype)) level.give(in_fp32 + tensor_bytes(numbers));
}

/// DDP's buckets, which last for the whole training.
std::int64_t bucket_bytes(const Plan& plan) {
  if (plan.spec.strategy != Strategy::ddp) return 0;
  std::int64_t bytes = 0;
  for (const GradientBucket& bucket : plan.buckets) bytes += allocated_bytes(bucket.bytes);
  return bytes;
}

/// What nn.DataParallel does beside forwards and backwards. Parameters of replicas last from their broadcast to the end of
/// the step, gradients of replicas to their reduction.
void replay_exchange(const Plan& plan, const Task& task, const Work& work, Level& level) {
  const std::int64_t bytes = allocated_bytes(work.bytes);
  const bool root = task.worker == 0;
  switch (task.kind) {
    case TaskKind::scatter:
      if (work.receives) level.take(bytes);
      break;
    case TaskKind::gather:
      // A replica's module is gone after its forward: what its backward does not read, the first layer's weight, with it.
      if (!work.receives) level.give(tensor_bytes(layer_of(plan, 0).in_features * layer_of(plan, 0).out_features));
      if (work.receives && task.part == 1) level.take(tensor_bytes(plan.spec.batch * plan.spec.model.layers.back().out_features));
      break;
    case TaskKind::broadcast:
      level.take(root && work.tensors == 1 ? 0 : bytes);
      if (root && work.tensors > 1) level.give(bytes);
      break;
    case TaskKind::reduce:
      level.take((work.tensors > 1 ? bytes : 0) + (root ? bytes : 0));
      if (work.tensors > 1) level.give(bytes);
      break;
    case TaskKind::loss: replay_loss(plan, work.bytes / kBytesPerNumber, level); break;
    default: break;
  }
}

std::vector<std::int64_t> replay_autograd(const Plan& plan) {
  std::vector<Level> levels(plan.stages.size());
  for (std::size_t s = 0; s < levels.size(); ++s) {
    levels[s].take(data_bytes(plan, s) + bucket_bytes(plan));
    if (plan.spec.strategy == Strategy::dp && s > 0) continue;  // its parameters come with the broadcast
    levels[s].take(parameter_bytes(plan, plan.stages[s], 1) + optimizer_bytes(plan, plan.stages[s]));
  }
  std::vector<std::int64_t> lasting;  // DataParallel: what outlives a round
  for (const Level& level : levels) lasting.push_back(level.now);
  std::vector<std::int32_t> microbatch(levels.size(), 0);
  for (const Task& task : plan.graph.tasks) {
    const Work& work = plan.graph.works[task.work];
    const auto s = static_cast<std::size_t>(task.stage);
    if (plan.spec.strategy == Strategy::dp && task.microbatch > microbatch[s]) {
      levels[s].now = lasting[s] + (s == 0 ? parameter_bytes(plan, plan.stages[s], 1) : 0);
      microbatch[s] = task.microbatch;
    }
    const Stage& stage = plan.stages[s];
    const std::int64_t in = work.rows * layer_of(plan, stage.first_layer).in_features;
    const std::int64_t out = work.rows * layer_of(plan, stage.first_layer + stage.layer_count - 1).out_features;
    switch (task.kind) {
      case TaskKind::forward: replay_forward(plan, work, levels[s]); break;
      case TaskKind::receive_forward: levels[s].take(tensor_bytes(in)); break;
      case TaskKind::receive_backward: levels[s].take(tensor_bytes(out)); break;
      case TaskKind::send_backward: levels[s].give(2 * tensor_bytes(in)); break;  // the gradient, and what had arrived
      case TaskKind::backward:
        if (work.loss) replay_loss(plan, out, levels[s]);
        replay_backward(plan, work, stage.replica, levels[s]);
        break;
      case TaskKind::optimizer:
        if (plan.spec.optimizer == Optimizer::adam) {  // roots of the second moments, for a moment
          levels[s].take(parameter_bytes(plan, stage, 1));
          levels[s].give(parameter_bytes(plan, stage, 1));
        }
        break;
      default: replay_exchange(plan, task, work, levels[s]); break;
    }
  }
  std::vector<std::int64_t> peaks;
  for (const Level& level : levels) peaks.push_back(level.peak);
  return peaks;
}

}  // namespace

std::int64_t allocated_bytes(std::int64_t bytes) {
  if (bytes == 0) return 0;
  const std::int64_t rounded = (bytes + 511) / 512 * 512;
  if (rounded < 10 * kMiB) return rounded;
  const std::int64_t block = (rounded + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  return block - rounded > kMiB ? rounded : block;
}

std::vector<std::int64_t> predict_memory_bytes(const Plan& plan, const WorkspaceBytes& workspace) {
  std::vector<std::int64_t> bytes;
  if (plan.spec.workers == Workers::one || is_data_parallel(plan.spec)) {
    bytes = replay_autograd(plan);
    for (std::size_t g = 0; g < bytes.size(); ++g) bytes[g] += bytes[g] > 0 ? workspace.autograd : 0;
    return bytes;
  }
  const bool split = std::any_of(plan.graph.works.begin(), plan.graph.works.end(),
                                 [](const Work& work) { return work.kind == TaskKind::backward_weight; });
  const bool whole = std::any_of(plan.graph.works.begin(), plan.graph.works.end(),
                                 [](const Work& work) { return work.kind == TaskKind::backward; });
  bytes.assign(static_cast<std::size_t>(plan.spec.gpus), whole ? workspace.pipeline : workspace.pipeline_split);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    bytes[static_cast<std::size_t>(plan.stages[s].worker)] += parameter_bytes(plan, plan.stages[s], 2) +
                                                              optimizer_bytes(plan, plan.stages[s]) + data_bytes(plan, s) +
                                                              pipeline_buffer_bytes(plan, s, split);
  }
  return bytes;
}

}  // namespace pdl
