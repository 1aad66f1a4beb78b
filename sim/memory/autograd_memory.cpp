#include "sim/memory/autograd_memory.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/memory/allocated_tensors.hpp"

namespace pdl {
namespace {

/// Bytes in use on one GPU, and the most there ever were.
struct Level {
  std::int64_t now = 0;
  std::int64_t peak = 0;
  void take(std::int64_t bytes) { peak = std::max(peak, now += bytes); }
  void give(std::int64_t bytes) { now -= bytes; }
};

/// What tasks of autograd need beside their bytes.
struct Replay {
  const Plan& plan;
  std::int64_t multiprocessors;
  bool amp = is_amp(plan.spec.dtype);

  /// A result of a layer: half precision under autocast.
  std::int64_t result_bytes(std::int64_t numbers) const {
    return amp ? allocated_bytes(numbers * kBytesPerNumber / 2) : tensor_bytes(numbers);
  }
  bool is_dp() const { return plan.parallel.program == Program::data_parallel; }
  /// Of the outputs that a loss is of: all rows of DataParallel's micro-batch.
  std::int64_t loss_rows(const Work& work) const {
    return is_dp() ? work.bytes / kBytesPerNumber / layers().back().out_features : work.rows;
  }
  /// What a loss keeps: it is mse_loss's own result, unless a weight makes another of it (weighted_loss,
  /// runtime/model).
  std::int64_t kept_by_loss(const Work& work) const {
    const std::int64_t rows = loss_rows(work), replicas = is_dp() ? 1 : plan.parallel.mesh.dp;
    return rows * replicas == plan.spec.batch * plan.spec.accum ? tensor_bytes(rows * layers().back().out_features) : 0;
  }
  std::int64_t output_bytes(const Work& loss) const {
    return result_bytes(loss_rows(loss) * layers().back().out_features);
  }
  const std::vector<Layer>& layers() const { return plan.spec.model.layers; }
};

/// Autocast makes copies of weights and biases. A weight's is kept where its layer gives a gradient to its input; the
/// others go with the cache, at the end of the forward.
void replay_forward(const Replay& replay, const Work& work, Level& level) {
  const Plan& plan = replay.plan;
  std::int64_t cached = 0;
  if (replay.amp && work.first_layer == 0) level.take(replay.result_bytes(work.rows * layer_of(plan, 0).in_features));
  for (std::int32_t l = work.first_layer; l < work.first_layer + work.layer_count; ++l) {
    const auto [in, out] = layer_of(plan, l);
    if (replay.amp) {
      level.take(replay.result_bytes(in * out) + replay.result_bytes(out));
      cached += replay.result_bytes(out) + (l == 0 ? replay.result_bytes(in * out) : 0);
    }
    const std::int64_t result = replay.result_bytes(work.rows * out);
    level.take(result);  // of the Linear: nobody keeps it
    level.take(result);  // of the ReLU
    level.give(result);
  }
  level.give(cached);
}

/// `arrived`: the gradient of the last layer's result; of GPU 0 of several under DataParallel a view of all rows'
/// gradient, of a single one 0: the gradient goes, but the last result is the output, and stays.
void replay_backward(const Replay& replay, const Work& work, std::int32_t replica, std::int64_t arrived, Level& level) {
  const Plan& plan = replay.plan;
  for (std::int32_t l = work.first_layer + work.layer_count; l-- > work.first_layer;) {
    const auto [in, out] = layer_of(plan, l);
    const std::int64_t result = replay.result_bytes(work.rows * out);
    level.take(result);            // gradient before the ReLU
    level.give(arrived + result);  // after it, and the ReLU's result
    arrived = l > 0 ? replay.result_bytes(work.rows * in) : 0;
    level.take(arrived);
    const std::int64_t weight = replay.result_bytes(in * out), bias = replay.result_bytes(out);
    level.take(weight + bias);
    const std::int64_t partial_sums = bias_sum_bytes(work.rows, out, replay.multiprocessors);
    level.take(partial_sums);
    level.give(partial_sums + result);
    if (replay.amp)
      level.give(l > 0 ? weight : replay.result_bytes(work.rows * in));  // the copy of the weight, of the input
    // Added to what is there, or copied into a bucket that is the gradient.
    const bool goes = work.accumulate || plan.spec.bucket_views;
    for (const auto& [made, numbers] : {std::pair{bias, out}, {weight, in * out}}) {
      if (replay.amp) {  // cast to fp32
        level.take(tensor_bytes(numbers));
        level.give(made);
      }
      if (goes) level.give(tensor_bytes(numbers));
    }
    // DataParallel's replicas: the weight of a layer goes with its backward.
    if (replay.is_dp() && replica > 0 && l > 0) level.give(tensor_bytes(in * out));
  }
}

/// mse_loss in fp32 and its gradient: the terms, and once more what their mean reads.
void replay_loss(const Replay& replay, const Work& work, Level& level) {
  const std::int64_t numbers = replay.loss_rows(work) * replay.layers().back().out_features;
  const std::int64_t in_fp32 = tensor_bytes(numbers);
  if (replay.amp) level.take(in_fp32);  // the output's copy
  level.take(2 * in_fp32);
  level.give(2 * in_fp32 - replay.kept_by_loss(work));
  level.take(in_fp32);  // the gradient
  if (replay.amp) {
    level.give(in_fp32);
    level.take(replay.result_bytes(numbers));
    level.give(in_fp32);
  }
}

/// DDP's buckets, which last for the whole training.
std::int64_t bucket_bytes(const Plan& plan) {
  if (plan.parallel.program != Program::ddp) return 0;
  std::int64_t bytes = 0;
  for (const GradientBucket& bucket : plan.buckets) bytes += allocated_bytes(bucket.bytes);
  return bytes;
}

/// DataParallel keeps the output of a micro-batch on GPU 0 until the next one has one.
struct KeptOutput {
  std::int64_t before = 0;  // of the micro-batch before
  std::int64_t own = 0;
};

/// What nn.DataParallel does beside forwards and backwards. Parameters of replicas last from their broadcast to the end
/// of the step, gradients of replicas to their reduction.
void replay_exchange(const Replay& replay, const Task& task, const Work& work, const KeptOutput& output, Level& level) {
  const Plan& plan = replay.plan;
  const std::int64_t bytes = allocated_bytes(work.bytes);
  const bool root = task.worker == 0;
  switch (task.kind) {
    case TaskKind::scatter:
      if (work.receives) level.take(bytes);
      break;
    case TaskKind::gather:
      // A replica's module is gone after its forward: what its backward does not read, the first layer's weight, with
      // it.
      if (!work.receives) level.give(tensor_bytes(layer_of(plan, 0).in_features * layer_of(plan, 0).out_features));
      if (work.receives && task.part == 1) level.take(output.own);  // once for all slices
      break;
    case TaskKind::broadcast:
      level.take(root && work.tensors == 1 ? 0 : bytes);
      if (root && work.tensors > 1) level.give(bytes);
      break;
    case TaskKind::reduce:
      level.take((work.tensors > 1 ? bytes : 0) + (root ? bytes : 0));
      if (work.tensors > 1) level.give(bytes);
      break;
    case TaskKind::loss:
      level.give(output.before);
      replay_loss(replay, work, level);
      break;
    default: break;
  }
}

/// The loss of each step is kept until the next step has one.
std::vector<std::int64_t> kept_losses(const Replay& replay) {
  std::vector<std::int64_t> bytes(replay.plan.stages.size());
  for (const Task& task : replay.plan.graph.tasks) {
    const Work& work = replay.plan.graph.works[task.work];
    if (work.kind == TaskKind::loss || work.loss)
      bytes[static_cast<std::size_t>(task.stage)] = replay.kept_by_loss(work);
  }
  return bytes;
}

/// Of DataParallel, by micro-batch of all rounds; of others without a meaning.
std::vector<KeptOutput> kept_outputs(const Replay& replay) {
  std::vector<KeptOutput> outputs(replay.plan.microbatch_rows.size());
  for (const Task& task : replay.plan.graph.tasks) {
    const Work& work = replay.plan.graph.works[task.work];
    if (work.kind == TaskKind::loss) outputs[static_cast<std::size_t>(task.microbatch)].own = replay.output_bytes(work);
  }
  for (std::size_t m = 0; m < outputs.size(); ++m)
    outputs[m].before = outputs[(m + outputs.size() - 1) % outputs.size()].own;
  return outputs;
}

/// What is there between two steps.
std::vector<Level> levels_at_rest(const Replay& replay, const std::vector<std::int64_t>& losses,
                                  const std::vector<KeptOutput>& outputs) {
  const Plan& plan = replay.plan;
  std::vector<Level> levels(plan.stages.size());
  for (std::size_t s = 0; s < levels.size(); ++s) {
    levels[s].take(data_bytes(plan, s) + bucket_bytes(plan) + losses[s]);
    if (replay.is_dp() && s > 0) continue;  // its parameters come with the broadcast
    levels[s].take(parameter_bytes(plan, plan.stages[s], 1) + optimizer_bytes(plan, plan.stages[s]));
  }
  if (replay.is_dp()) levels.front().take(outputs.back().own);
  return levels;
}

}  // namespace

std::int64_t bias_sum_bytes(std::int64_t rows, std::int64_t width, std::int64_t multiprocessors) {
  constexpr std::int64_t kColumns = 4;                          // that a thread reads at once
  constexpr std::int64_t kThreads = 512 / kColumns;             // of a block
  constexpr std::int64_t kBlocks = 2048 / kThreads;             // that a multiprocessor holds
  constexpr std::int64_t kLeastValues = 16, kMostValues = 256;  // of a thread
  const auto divided = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const auto power_of_two = [](std::int64_t n) {
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
  };
  if (width % kColumns != 0 || rows == 0 || multiprocessors == 0) return 0;
  const std::int64_t across = std::min<std::int64_t>(power_of_two(width / kColumns), 32);
  const std::int64_t along = std::min(power_of_two(rows), kThreads / across);
  const std::int64_t values = divided(rows, along);
  const std::int64_t blocks = divided(width / kColumns, across), most_blocks = kBlocks * multiprocessors;
  if (values < kMostValues || blocks > most_blocks) return 0;
  const std::int64_t parts =
      std::max(std::min(divided(most_blocks, blocks), divided(values, kLeastValues)), divided(values, kMostValues));
  return parts > 1 ? allocated_bytes(kBytesPerNumber * width * parts * across * kColumns) : 0;
}

std::vector<std::int64_t> replay_autograd(const Plan& plan, std::int64_t multiprocessors) {
  const Replay replay{plan, multiprocessors};
  const std::vector<std::int64_t> losses = kept_losses(replay);
  const std::vector<KeptOutput> outputs = kept_outputs(replay);
  const std::int64_t used =
      std::count_if(plan.replica_rows.begin(), plan.replica_rows.end(), [](std::int64_t rows) { return rows > 0; });
  std::vector<Level> levels = levels_at_rest(replay, losses, outputs);
  std::vector<std::int64_t> lasting;  // DataParallel: what outlives a round
  for (const Level& level : levels) lasting.push_back(level.now);
  std::vector<std::int32_t> microbatch(levels.size(), 0);
  for (const Task& task : plan.graph.tasks) {
    const Work& work = plan.graph.works[task.work];
    const auto s = static_cast<std::size_t>(task.stage);
    Level& level = levels[s];
    if (replay.is_dp() && task.microbatch > microbatch[s]) {
      level.now = lasting[s];
      if (s == 0)
        level.now += parameter_bytes(plan, plan.stages[s], 1) - outputs.back().own +
                     outputs[static_cast<std::size_t>(task.microbatch) - 1].own;
      microbatch[s] = task.microbatch;
    }
    const Stage& stage = plan.stages[s];
    const KeptOutput output = task.microbatch < 0 ? KeptOutput() : outputs[static_cast<std::size_t>(task.microbatch)];
    const std::int64_t in = replay.result_bytes(work.rows * layer_of(plan, stage.first_layer).in_features);
    const std::int64_t out =
        replay.result_bytes(work.rows * layer_of(plan, stage.first_layer + stage.layer_count - 1).out_features);
    switch (task.kind) {
      case TaskKind::forward: replay_forward(replay, work, level); break;
      case TaskKind::receive_forward: level.take(in); break;
      case TaskKind::receive_backward: level.take(out); break;
      case TaskKind::send_backward: level.give(2 * in); break;  // the gradient, and what had arrived
      case TaskKind::backward:
        if (work.loss) replay_loss(replay, work, level);
        replay_backward(replay, work, stage.replica, !replay.is_dp() || s > 0 ? out : used > 1 ? output.own : 0, level);
        break;
      case TaskKind::optimizer:
        level.give(losses[s]);                         // of the step before: there is a new one
        if (plan.spec.optimizer == Optimizer::adam) {  // roots of the second moments, for a moment
          level.take(parameter_bytes(plan, stage, 1));
          level.give(parameter_bytes(plan, stage, 1));
        }
        break;
      default: replay_exchange(replay, task, work, output, level); break;
    }
  }
  std::vector<std::int64_t> peaks;
  for (const Level& level : levels) peaks.push_back(level.peak);
  return peaks;
}

}  // namespace pdl
