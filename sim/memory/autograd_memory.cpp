#include "sim/memory/autograd_memory.hpp"

#include <algorithm>

#include "sim/memory/autograd_replay.hpp"
#include "sim/memory/pytorch_process.hpp"
#include "sim/plan/pytorch_pipeline_step.hpp"

namespace pdl {
namespace {

using enum MemoryCategory;

/// DDP's buckets, which last for the whole training.
std::int64_t bucket_bytes(const std::vector<GradientBucket>& buckets) {
  std::int64_t bytes = 0;
  for (const GradientBucket& bucket : buckets) bytes += allocated_bytes(bucket.bytes);
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
      of_gpu.hold(buckets, bucket_bytes(buckets_of_stage(plan, plan.stages[s])));
      of_gpu.hold(parameters, parameter_bytes(plan, plan.stages[s], 1));
      of_gpu.hold(optimizer_state, optimizer_bytes(plan, plan.stages[s]));
    }
    return memory;
  }
  for (std::size_t s = 0; s < memory.size(); ++s) {
    memory[s].records = records;
    memory[s].hold(other, data_bytes(plan, s) + losses[s]);
    memory[s].hold(buckets, bucket_bytes(plan.buckets));
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
      case TaskKind::recompute: replay_recomputation(replay, work, level); break;
      case TaskKind::backward:
        if (work.loss) replay_loss(replay, work, level);
        replay_backward(replay, work, stage, arrived_gradient(s, work, output), level);
        if (replay.holds_output() && work.first_layer == 0) {  // loss.backward() returns
          const std::size_t end = plan.parallel.program == Program::ddp ? s : plan.stages.size() - 1;
          Level{memory[end], id}.give(activations, replay.activation_bytes(work.rows, replay.layer_count()));
        }
        break;
      case TaskKind::optimizer:
        level.give(other, losses[s]);            // of the step before: there is a new one
        if (takes_roots(plan.spec.optimizer)) {  // roots of the second moments, for a moment
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
