#include "sim/memory/autograd_memory.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/memory/allocated_tensors.hpp"

namespace pdl {
namespace {

using enum MemoryCategory;

/// The memory of the GPU of one task.
struct Level {
  GpuMemory& memory;
  TaskId task;
  void take(MemoryCategory category, std::int64_t bytes) { memory.take(task, category, bytes); }
  void give(MemoryCategory category, std::int64_t bytes) { memory.give(task, category, bytes); }
};

/// What tasks of autograd need beside their bytes.
struct Replay {
  const Plan& plan;
  std::int64_t multiprocessors;
  std::vector<std::int64_t> number_bytes = activation_number_bytes(plan.spec.model, plan.spec.dtype);

  std::int64_t layer_count() const { return std::ssize(layers()); }
  /// What goes into layer `index` (the number of layers: what the model gives).
  std::int64_t activation_bytes(std::int64_t rows, std::int64_t index) const {
    const std::int64_t numbers =
        index < layer_count() ? input_numbers(layer_of(plan, index)) : output_numbers(plan.spec.model);
    return allocated_bytes(rows * numbers * number_bytes[static_cast<std::size_t>(index)]);
  }
  AutogradTensors tensors(std::int64_t rows, std::int64_t index) const {
    const std::int64_t of_input = number_bytes[static_cast<std::size_t>(index)];
    return autograd_tensors(layer_of(plan, index), {rows, plan.spec.dtype, of_input, /*input_gradient=*/index > 0});
  }
  bool keeps_result(std::int64_t index) const { return tensors(1, index).keeps_result; }
  bool keeps_input(std::int64_t index) const { return tensors(1, index).keeps_input; }
  /// The loss is of a copy in fp32.
  bool gives_half() const { return number_bytes.back() < kBytesPerNumber; }
  bool is_dp() const { return plan.parallel.program == Program::data_parallel; }
  bool is_pytorch_pipeline() const { return plan.parallel.program == Program::pytorch_pipeline; }
  /// What goes into the stage's first layer is in a buffer that lasts for the whole training.
  bool input_stays(std::int64_t layer, const Work& work) const {
    return layer == 0 || (is_pytorch_pipeline() && layer == work.first_layer);
  }
  /// PipelineStage.backward_one_chunk has the stage's result in a variable until its end.
  bool result_stays(std::int64_t layer, const Stage& stage) const {
    return is_pytorch_pipeline() && layer + 1 == stage.first_layer + stage.layer_count;
  }
  /// Of the outputs that a loss is of: all rows of DataParallel's micro-batch.
  std::int64_t loss_rows(const Work& work) const {
    return is_dp() ? work.bytes / kBytesPerNumber / output_numbers(plan.spec.model) : work.rows;
  }
  /// What a loss keeps: it is mse_loss's own result, unless a weight makes another of it (weighted_loss,
  /// runtime/model).
  std::int64_t kept_by_loss(const Work& work) const {
    const std::int64_t rows = loss_rows(work), replicas = is_dp() ? 1 : plan.parallel.mesh.dp;
    return rows * replicas == plan.spec.batch * plan.spec.accum ? tensor_bytes(rows * output_numbers(plan.spec.model))
                                                                : 0;
  }
  std::int64_t output_bytes(const Work& loss) const { return activation_bytes(loss_rows(loss), layer_count()); }
  const std::vector<Layer>& layers() const { return plan.spec.model.layers; }
};

/// Every layer makes its result, and what it keeps beside it. What went into it goes, unless it or the layer before
/// keeps that; what went into the model is data.
void replay_forward(const Replay& replay, const Work& work, Level level) {
  std::int64_t cached = 0;
  for (std::int32_t l = work.first_layer; l < work.first_layer + work.layer_count; ++l) {
    const AutogradTensors tensors = replay.tensors(work.rows, l);
    level.take(activations, tensor_bytes(tensors.kept));
    level.take(other, tensor_bytes(tensors.kept_parameters) + tensor_bytes(tensors.cached));
    cached += tensor_bytes(tensors.cached);
    level.take(other, tensor_bytes(tensors.temporary));
    level.take(activations, replay.activation_bytes(work.rows, l + 1));
    level.give(other, tensor_bytes(tensors.temporary));
    const bool kept_before = replay.input_stays(l, work) || (l > work.first_layer && replay.keeps_result(l - 1));
    if (!tensors.keeps_input && !kept_before) level.give(activations, replay.activation_bytes(work.rows, l));
  }
  level.give(other, cached);
}

/// The gradients of a layer's parameters come as its backward makes them; AccumulateGrad has them in fp32.
void replay_parameter_gradients(const Replay& replay, const Work& work, const Layer& layer, std::int64_t number_bytes,
                                Level level) {
  // Added to what is there, or copied into a bucket that is the gradient.
  const bool goes = work.accumulate || replay.plan.spec.bucket_views;
  const std::vector<ParameterTensor> parameters = parameter_tensors(layer);
  for (auto tensor = parameters.rbegin(); tensor != parameters.rend(); ++tensor) {
    const std::int64_t in_fp32 = tensor_bytes(tensor->numbers());
    if (number_bytes < kBytesPerNumber) {  // cast
      level.take(gradients, in_fp32);
      level.give(gradients, allocated_bytes(tensor->numbers() * number_bytes));
    }
    if (goes) level.give(gradients, in_fp32);
  }
}

/// Weights of DataParallel's replicas that go with the backward of their layer: those that it reads for the gradient of
/// its input.
std::int64_t weight_bytes(const Layer& layer) {
  std::int64_t bytes = 0;
  for (const ParameterTensor& tensor : parameter_tensors(layer))
    bytes += tensor.read_by_input_gradient ? tensor_bytes(tensor.numbers()) : 0;
  return bytes;
}

/// The backward of one layer; `arrived` is the gradient of its result. Gives what it leaves: that of its input.
std::int64_t replay_layer_backward(const Replay& replay, const Work& work, const Stage& stage, std::int64_t l,
                                   std::int64_t arrived, Level level) {
  const Layer& layer = layer_of(replay.plan, l);
  const AutogradTensors tensors = replay.tensors(work.rows, l);
  if (tensors.between_numbers > 0) {
    const std::int64_t between = allocated_bytes(tensors.between_numbers * tensors.gradient_number_bytes);
    level.take(activations, between);
    const bool goes = tensors.keeps_result && !replay.result_stays(l, stage);
    level.give(activations, arrived + (goes ? replay.activation_bytes(work.rows, l + 1) : 0));
    arrived = between;
  }
  const std::int64_t made =
      l > 0 ? allocated_bytes(work.rows * input_numbers(layer) * tensors.gradient_number_bytes) : 0;
  level.take(activations, made);
  for (const ParameterTensor& tensor : parameter_tensors(layer))
    level.take(gradients, allocated_bytes(tensor.numbers() * tensors.gradient_number_bytes));
  const std::int64_t partial_sums =
      tensors.summed_columns > 0 ? bias_sum_bytes(work.rows, tensors.summed_columns, replay.multiprocessors) : 0;
  level.take(other, partial_sums);
  level.give(other, partial_sums);
  level.give(activations, arrived + tensor_bytes(tensors.kept));
  level.give(other, tensor_bytes(tensors.kept_parameters));
  if (l > stage.first_layer && tensors.keeps_input && !replay.keeps_result(l - 1))
    level.give(activations, replay.activation_bytes(work.rows, l));
  const std::int64_t left = l > 0 ? replay.activation_bytes(work.rows, l) : 0;
  if (left != made) {  // cast to the type of what went into the layer
    level.take(activations, left);
    level.give(activations, made);
  }
  replay_parameter_gradients(replay, work, layer, tensors.gradient_number_bytes, level);
  return left;
}

/// `arrived`: the gradient of the last layer's result; of GPU 0 of several under DataParallel a view of all rows'
/// gradient, of a single one 0: the gradient goes, but the last result is the output, and stays.
void replay_backward(const Replay& replay, const Work& work, const Stage& stage, std::int64_t arrived, Level level) {
  for (std::int32_t l = work.first_layer + work.layer_count; l-- > work.first_layer;) {
    arrived = replay_layer_backward(replay, work, stage, l, arrived, level);
    // DataParallel's replicas: the weight of a layer goes with its backward.
    if (replay.is_dp() && stage.replica > 0 && l > 0) level.give(parameters, weight_bytes(layer_of(replay.plan, l)));
  }
}

/// mse_loss in fp32 and its gradient: the terms, and once more what their mean reads. An output that no layer keeps is
/// kept by the loss, or, if it is half, its copy in fp32; DataParallel keeps the output in any case.
void replay_loss(const Replay& replay, const Work& work, Level level) {
  const std::int64_t in_fp32 = tensor_bytes(replay.loss_rows(work) * output_numbers(replay.plan.spec.model));
  const bool half = replay.gives_half();
  const bool goes = !replay.is_dp() && !replay.is_pytorch_pipeline() && !replay.keeps_result(replay.layer_count() - 1);
  if (half) level.take(other, in_fp32);  // the output's copy
  level.take(other, 2 * in_fp32);
  level.give(other, 2 * in_fp32 - replay.kept_by_loss(work));
  if (half && goes) level.give(activations, replay.output_bytes(work));
  level.take(activations, in_fp32);  // the gradient
  if (half) {
    level.give(other, in_fp32);
    level.take(activations, replay.output_bytes(work));
    level.give(activations, in_fp32);
  } else if (goes) {
    level.give(activations, in_fp32);
  }
}

/// torch.distributed.pipelining: buffers for what each micro-batch brings, made once for the whole training
/// (PipelineStage._prepare_forward_infra, _prepare_backward_infra of stage.py): the input of all stages but the model's
/// first, the gradient of the result of all but its last. Where the neighbouring stage is in the same process, its own
/// tensor takes the buffer's place, and stays there until the next step.
std::int64_t receive_buffer_bytes(const Replay& replay, std::size_t s) {
  const Plan& plan = replay.plan;
  const Stage& stage = plan.stages[s];
  std::int64_t bytes = 0;
  for (std::int32_t m = 0; m < microbatches_of_a_round(plan); ++m) {
    const std::int64_t rows = plan.microbatch_rows[static_cast<std::size_t>(m)];
    if (!is_first_stage(plan.stages, s)) bytes += replay.activation_bytes(rows, stage.first_layer);
    if (!is_last_stage(plan.stages, s)) bytes += replay.activation_bytes(rows, stage.first_layer + stage.layer_count);
  }
  return bytes;
}

/// The tasks of a process of torch.distributed.pipelining.
///   receive     into a buffer that is there
///   forward     its result goes with the backward; for a stage of the same process it takes the place of the one of
///               the step before, and stays
///   backward    the stage's result is there until its end
///   send        a gradient goes; of Schedule1F1B, which has it in a variable, when the next one is sent
///   I           keeps the gradient of each layer's product for W, and everything that the forward kept; the gradient
///               of the input stays in the input's .grad until the next step (stage_backward_input of _backward.py)
///   W           layer by layer from the first one: the gradients, then what the layer has kept goes; those of the
///               layer before are there until the next ones are (stage_backward_weight has them in a variable)
class PytorchProcess {
 public:
  PytorchProcess(const Replay& replay, GpuMemory& memory)
      : replay_(replay), plan_(replay.plan), memory_(memory), keeps_sent_(plan_.spec.schedule == "1f1b") {}

  void add(TaskId id, const Task& task, const Work& work, std::int64_t loss_before) {
    const auto s = static_cast<std::size_t>(task.stage);
    const Stage& stage = plan_.stages[s];
    Level level{memory_, id};
    switch (task.kind) {
      case TaskKind::forward: forward(s, work, level); break;
      case TaskKind::send_backward:
        if (is_split(task)) break;
        level.give(activations, std::exchange(sent_, in_bytes(stage, rows_of(task))));
        if (!keeps_sent_) level.give(activations, std::exchange(sent_, 0));
        break;
      case TaskKind::backward:
        if (work.loss) replay_loss(replay_, work, level);
        replay_backward(replay_, work, stage, work.loss ? replay_.activation_bytes(work.rows, end(stage)) : 0, level);
        if (!next_is_here(s)) level.give(activations, out_bytes(stage, work.rows));
        // The gradient of the input, in the place of the one of the step before.
        if (is_local_boundary(plan_.stages, s)) level.give(activations, in_bytes(stage, work.rows));
        break;
      case TaskKind::backward_input:
        input_backward(s, work, level);
        split_ = task.stage;
        split_microbatch_ = task.microbatch;
        break;
      case TaskKind::backward_weight: weight_backward(s, work, level); break;
      case TaskKind::optimizer:
        level.give(activations, std::exchange(sent_, 0) + std::exchange(kept_, 0));
        level.give(other, loss_before);
        if (plan_.spec.optimizer == Optimizer::adam) {
          level.take(other, parameter_bytes(plan_, stage, 1));
          level.give(other, parameter_bytes(plan_, stage, 1));
        }
        break;
      default: break;
    }
  }

 private:
  bool is_split(const Task& send) const { return send.stage == split_ && send.microbatch == split_microbatch_; }
  static std::int32_t end(const Stage& stage) { return stage.first_layer + stage.layer_count; }
  std::int64_t rows_of(const Task& task) const {
    return plan_.microbatch_rows[static_cast<std::size_t>(task.microbatch)];
  }
  std::int64_t in_bytes(const Stage& stage, std::int64_t rows) const {
    return replay_.activation_bytes(rows, stage.first_layer);
  }
  std::int64_t out_bytes(const Stage& stage, std::int64_t rows) const {
    return replay_.activation_bytes(rows, end(stage));
  }
  bool next_is_here(std::size_t s) const {
    return s + 1 < plan_.stages.size() && is_local_boundary(plan_.stages, s + 1);
  }

  void forward(std::size_t s, const Work& work, Level level) {
    replay_forward(replay_, work, level);
    if (next_is_here(s)) level.give(activations, out_bytes(plan_.stages[s], work.rows));
  }

  void input_backward(std::size_t s, const Work& work, Level level) {
    const Stage& stage = plan_.stages[s];
    if (work.loss) replay_loss(replay_, work, level);
    std::int64_t arrived = work.loss ? out_bytes(stage, work.rows) : 0;
    for (std::int32_t l = end(stage); l-- > stage.first_layer;) {
      const AutogradTensors tensors = replay_.tensors(work.rows, l);
      if (tensors.between_numbers > 0) {
        level.take(activations, allocated_bytes(tensors.between_numbers * tensors.gradient_number_bytes));
        level.give(activations, arrived);
      }
      const std::int64_t made = replay_.activation_bytes(work.rows, l);
      level.take(activations, made);
      if (tensors.between_numbers == 0) level.give(activations, arrived);
      arrived = made;
    }
    if (is_local_boundary(plan_.stages, s)) {
      level.give(activations, arrived);
    } else {
      kept_ += arrived;
    }
  }

  void weight_backward(std::size_t s, const Work& work, Level level) {
    const Stage& stage = plan_.stages[s];
    std::int64_t added = 0;  // of the layer before: gradients that have been added to what was there
    for (std::int32_t l = stage.first_layer; l < end(stage); ++l) {
      const AutogradTensors tensors = replay_.tensors(work.rows, l);
      std::int64_t made = 0;
      for (const ParameterTensor& tensor : parameter_tensors(layer_of(plan_, l)))
        made += allocated_bytes(tensor.numbers() * tensors.gradient_number_bytes);
      level.take(gradients, made);
      level.give(gradients, std::exchange(added, work.accumulate ? made : 0));
      if (tensors.between_numbers > 0)
        level.give(activations, allocated_bytes(tensors.between_numbers * tensors.gradient_number_bytes));
      if (l > stage.first_layer) level.give(activations, replay_.activation_bytes(work.rows, l));
    }
    level.give(gradients, added);
    if (!next_is_here(s)) level.give(activations, out_bytes(stage, work.rows));
  }

  const Replay& replay_;
  const Plan& plan_;
  GpuMemory& memory_;
  bool keeps_sent_;
  std::int64_t sent_ = 0;    // the gradient that was sent last
  std::int64_t kept_ = 0;    // gradients of inputs that split backwards have made in this step
  std::int32_t split_ = -1;  // stage and micro-batch of the last of them
  std::int32_t split_microbatch_ = -1;
};

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
void replay_exchange(const Replay& replay, const Task& task, const Work& work, const KeptOutput& output, Level level) {
  const Plan& plan = replay.plan;
  const std::int64_t bytes = allocated_bytes(work.bytes);
  const bool root = task.worker == 0;
  switch (task.kind) {
    case TaskKind::scatter:
      if (work.receives) level.take(activations, bytes);  // of the batch, or of the gradient of the output
      break;
    case TaskKind::gather:
      // A replica's module is gone after its forward: what its backward does not read, the first layer's weight, with
      // it.
      if (!work.receives) level.give(parameters, weight_bytes(layer_of(plan, 0)));
      if (work.receives && task.part > 1) break;
      if (work.receives) level.take(activations, output.own);  // once for all slices
      if (!replay.keeps_result(replay.layer_count() - 1))      // of this GPU
        level.give(activations,
                   replay.activation_bytes(rows_of(plan, task.stage, task.microbatch), replay.layer_count()));
      break;
    case TaskKind::broadcast:
      // GPU 0 puts the parameters together for a moment; the others keep theirs as parts of what has arrived.
      level.take(root ? buckets : parameters, root && work.tensors == 1 ? 0 : bytes);
      if (root && work.tensors > 1) level.give(buckets, bytes);
      break;
    case TaskKind::reduce:
      level.take(buckets, work.tensors > 1 ? bytes : 0);
      level.take(gradients, root ? bytes : 0);
      if (work.tensors > 1) level.give(buckets, bytes);
      break;
    case TaskKind::loss:
      level.give(activations, output.before);
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
std::vector<GpuMemory> memory_at_rest(const Replay& replay, const std::vector<std::int64_t>& losses,
                                      const std::vector<KeptOutput>& outputs, bool records) {
  const Plan& plan = replay.plan;
  std::vector<GpuMemory> memory(replay.is_pytorch_pipeline() ? static_cast<std::size_t>(plan.parallel.mesh.gpus())
                                                             : plan.stages.size());
  if (replay.is_pytorch_pipeline()) {
    for (GpuMemory& of_gpu : memory) of_gpu.records = records;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      GpuMemory& of_gpu = memory[static_cast<std::size_t>(only_worker(plan.stages[s]))];
      of_gpu.hold(other, data_bytes(plan, s) + losses[s]);
      of_gpu.hold(activations, receive_buffer_bytes(replay, s));
      of_gpu.hold(parameters, parameter_bytes(plan, plan.stages[s], 1));
      of_gpu.hold(optimizer_state, optimizer_bytes(plan, plan.stages[s]));
    }
    return memory;
  }
  for (std::size_t s = 0; s < memory.size(); ++s) {
    memory[s].records = records;
    memory[s].hold(other, data_bytes(plan, s) + losses[s]);
    memory[s].hold(buckets, bucket_bytes(plan));
    if (replay.is_dp() && s > 0) continue;  // its parameters come with the broadcast
    memory[s].hold(parameters, parameter_bytes(plan, plan.stages[s], 1));
    memory[s].hold(optimizer_state, optimizer_bytes(plan, plan.stages[s]));
  }
  if (replay.is_dp()) memory.front().hold(activations, outputs.back().own);
  return memory;
}

/// DataParallel, before micro-batch `microbatch` (from 1 on) of a step: replicas are gone, GPU 0 has gradients and the
/// output of the micro-batch before.
BytesByCategory between_microbatches(const Plan& plan, const GpuMemory& memory, std::size_t gpu,
                                     const std::vector<KeptOutput>& outputs, std::int32_t microbatch) {
  BytesByCategory bytes = memory.at_start;
  if (gpu > 0) return bytes;
  bytes[static_cast<std::size_t>(gradients)] += parameter_bytes(plan, plan.stages[gpu], 1);
  bytes[static_cast<std::size_t>(activations)] +=
      outputs[static_cast<std::size_t>(microbatch) - 1].own - outputs.back().own;
  return bytes;
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

std::vector<GpuMemory> replay_autograd(const Plan& plan, std::int64_t multiprocessors, bool records) {
  const Replay replay{plan, multiprocessors};
  const std::vector<std::int64_t> losses = kept_losses(replay);
  const std::vector<KeptOutput> outputs = kept_outputs(replay);
  const std::int64_t used =
      std::count_if(plan.replica_rows.begin(), plan.replica_rows.end(), [](std::int64_t rows) { return rows > 0; });
  std::vector<GpuMemory> memory = memory_at_rest(replay, losses, outputs, records);
  if (replay.is_pytorch_pipeline()) {
    std::vector<PytorchProcess> processes;
    for (GpuMemory& of_gpu : memory) processes.emplace_back(replay, of_gpu);
    for (TaskId id = 0; id < plan.graph.tasks.size(); ++id) {
      const Task& task = plan.graph.tasks[id];
      processes[static_cast<std::size_t>(task.worker)].add(id, task, plan.graph.works[task.work],
                                                           losses[static_cast<std::size_t>(task.stage)]);
    }
    return memory;
  }
  std::vector<std::int32_t> microbatch(memory.size(), 0);
  const auto arrived_gradient = [&](std::size_t s, const Work& work, const KeptOutput& output) {
    const std::int32_t end = work.first_layer + work.layer_count;
    if (replay.is_dp() && s == 0 && used > 1) return output.own;
    return replay.is_dp() && s == 0 && replay.keeps_result(end - 1) ? 0 : replay.activation_bytes(work.rows, end);
  };
  for (TaskId id = 0; id < plan.graph.tasks.size(); ++id) {
    const Task& task = plan.graph.tasks[id];
    const Work& work = plan.graph.works[task.work];
    const auto s = static_cast<std::size_t>(task.stage);
    Level level{memory[s], id};
    if (replay.is_dp() && task.microbatch > microbatch[s]) {
      memory[s].set(id, between_microbatches(plan, memory[s], s, outputs, task.microbatch));
      microbatch[s] = task.microbatch;
    }
    const Stage& stage = plan.stages[s];
    const KeptOutput output = task.microbatch < 0 ? KeptOutput() : outputs[static_cast<std::size_t>(task.microbatch)];
    const std::int32_t last_layer = stage.first_layer + stage.layer_count - 1;
    const std::int64_t in = replay.activation_bytes(work.rows, stage.first_layer);
    const std::int64_t out = replay.activation_bytes(work.rows, last_layer + 1);
    switch (task.kind) {
      case TaskKind::forward: replay_forward(replay, work, level); break;
      case TaskKind::receive_forward: level.take(activations, in); break;
      case TaskKind::receive_backward: level.take(activations, out); break;
      case TaskKind::send_forward: level.give(activations, replay.keeps_result(last_layer) ? 0 : out); break;
      case TaskKind::send_backward:  // the gradient, and what had arrived
        level.give(activations, in + (replay.keeps_input(stage.first_layer) ? in : 0));
        break;
      case TaskKind::backward:
        if (work.loss) replay_loss(replay, work, level);
        replay_backward(replay, work, stage, arrived_gradient(s, work, output), level);
        break;
      case TaskKind::optimizer:
        level.give(other, losses[s]);                  // of the step before: there is a new one
        if (plan.spec.optimizer == Optimizer::adam) {  // roots of the second moments, for a moment
          level.take(other, parameter_bytes(plan, stage, 1));
          level.give(other, parameter_bytes(plan, stage, 1));
        }
        break;
      default: replay_exchange(replay, task, work, output, level); break;
    }
  }
  return memory;
}

}  // namespace pdl
