#include "sim/plan/pytorch_pipeline_step.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "sim/plan/pytorch_actions.hpp"
#include "sim/plan/stage_tasks.hpp"

namespace pdl {
namespace {

class PytorchPipelineStep {
 public:
  PytorchPipelineStep(const Plan& plan, const StepOrder& order) : plan_(plan), order_(order) {}

  TaskGraph build() && {
    const std::vector<std::vector<PytorchAction>> actions = actions_of_rounds();
    const std::vector<std::vector<std::int32_t>> stages_of = stages_by_worker(plan_.stages, order_.workers());
    for (std::int32_t worker = 0; worker < order_.workers(); ++worker) {
      replica_ = static_cast<std::int32_t>(plan_.parallel.mesh.place(worker).dp);
      add_process(worker, actions[static_cast<std::size_t>(plan_.parallel.mesh.place(worker).pp)],
                  stages_of[static_cast<std::size_t>(worker)]);
    }
    const auto workers = static_cast<std::uint32_t>(order_.workers());
    return std::move(builder_).build(workers, workers);
  }

 private:
  /// Of a replica. schedule.step() is called once a round of accumulation: its program is made for one, and repeated.
  std::vector<std::vector<PytorchAction>> actions_of_rounds() const {
    const Schedule* schedule = named_schedule(plan_.spec);
    const std::int32_t of_round = microbatches_of_a_round(plan_);
    const auto rounds = static_cast<std::int32_t>(plan_.spec.accum);
    const std::vector<std::vector<PytorchAction>> once = pytorch_actions(
        make_order(plan_.spec), schedule ? schedule->pytorch_class : std::string_view(), plan_.spec.scale_grads);
    std::vector<std::vector<PytorchAction>> all(once.size());
    for (std::size_t p = 0; p < once.size(); ++p) {
      std::int32_t batches = 0;
      for (const PytorchAction& action : once[p]) batches = std::max(batches, action.batch + 1);
      for (std::int32_t round = 0; round < rounds; ++round) {
        for (PytorchAction action : once[p]) {
          if (action.batch >= 0) action.batch += round * batches;
          for (Operation& operation : action.operations) operation.microbatch += round * of_round;
          all[p].push_back(std::move(action));
        }
      }
    }
    return all;
  }

  void add_process(std::int32_t worker, const std::vector<PytorchAction>& actions,
                   const std::vector<std::int32_t>& own_stages) {
    const auto host = static_cast<std::uint32_t>(worker);
    batches_.clear();
    waited_for_.clear();
    computed_ = kNone;
    for (const PytorchAction& action : actions) {
      switch (action.kind) {
        case PytorchAction::Kind::compute: compute(here(action.operations.front()), host); break;
        case PytorchAction::Kind::post: post(action.operations, host); break;
        case PytorchAction::Kind::wait: {
          const std::vector<TaskId>& batch = batches_[static_cast<std::size_t>(action.batch)];
          waited_for_.insert(waited_for_.end(), batch.begin(), batch.end());
          break;
        }
        case PytorchAction::Kind::scale: scale_gradients(here(action.operations.front()).stage, host); break;
      }
    }
    for (const std::int32_t stage : own_stages)
      after_waits(tasks_.add_optimizer(stage, host, /*same_call=*/stage != own_stages.front()));
  }

  /// Actions are those of a replica, stages are counted on from replica to replica.
  Operation here(Operation operation) const {
    operation.stage += replica_ * stages_of_replica_;
    return operation;
  }

  void compute(const Operation& operation, std::uint32_t host) {
    const TaskKind kind = task_kind(operation.kind);
    if (ends_backwards(kind, operation.stage)) return last_backward(operation, host);
    computed_ = tasks_.add_compute(kind, operation.stage, operation.microbatch, host);
    after_waits(computed_);
  }

  /// The last one of a round of a stage that DDP wraps.
  bool ends_backwards(TaskKind kind, std::int32_t stage) {
    if (plan_.parallel.mesh.dp == 1 || kind != TaskKind::backward) return false;
    std::int32_t& done = backwards_[static_cast<std::size_t>(stage)];
    if (++done < microbatches_of_a_round(plan_)) return false;
    done = 0;
    return true;
  }

  /// Cut at the stage's buckets: each is copied, divided and all-reduced as soon as it is full, and copied back at the
  /// end, before the process goes on.
  void last_backward(const Operation& operation, std::uint32_t host) {
    const Stage& stage = tasks_.stage(operation.stage);
    const std::vector<GradientBucket> buckets = buckets_of_stage(plan_, stage);
    std::vector<TaskId> reduced;
    std::int32_t above = stage.first_layer + stage.layer_count;  // layers from here on have had their backward
    std::uint32_t part = 0;
    const auto backward_to = [&](std::int32_t layer) {
      if (layer == above) return;
      const bool loss = part == 0 && tasks_.is_last(operation.stage);
      computed_ = tasks_.add_backward_part(operation.stage, operation.microbatch, host,
                                           {layer, above - layer, /*runs_again=*/false, loss}, part++);
      after_waits(computed_);
      above = layer;
    };
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      backward_to(std::min(buckets[b].lowest_layer, above));
      reduced.push_back(add_exchange(operation, buckets[b], b, host));
    }
    backward_to(stage.first_layer);  // of layers without parameters
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      computed_ = add_moved(TaskKind::bucket_copy_out, operation, buckets[b], b, host);
      builder_.add_edge(reduced[b], computed_);
    }
  }

  TaskId add_exchange(const Operation& operation, const GradientBucket& bucket, std::size_t b, std::uint32_t host) {
    const TaskId full = add_moved(TaskKind::bucket_copy_in, operation, bucket, b, host);
    const TaskId reduced = add_moved(TaskKind::all_reduce, operation, bucket, b, host);
    builder_.add_edge(full, reduced);
    return reduced;
  }

  TaskId add_moved(TaskKind kind, const Operation& operation, const GradientBucket& bucket, std::size_t b,
                   std::uint32_t host) {
    const std::int32_t worker = tasks_.worker_of(operation.stage);
    Work work;
    work.kind = kind;
    work.implementation = Implementation::autograd;
    work.bytes = bucket.bytes;
    work.tensors = static_cast<std::int32_t>(bucket.tensors.size());
    std::uint32_t group = kNone;
    if (is_collective(kind)) {
      work.worker_group = builder_.add_worker_group(plan_.parallel.mesh.group_along(worker, Dimension::dp));
      const std::array<std::int64_t, 3> place = {operation.stage % stages_of_replica_, operation.microbatch,
                                                 static_cast<std::int64_t>(b)};
      const auto [known, is_new] = exchanges_.try_emplace(place, kNone);
      if (is_new) known->second = builder_.add_group();
      group = known->second;
    }
    const StreamRole role = is_collective(kind) ? StreamRole::collective : StreamRole::compute;
    return builder_.add_task({builder_.add_work(work), stream_of(worker, role, 0), host, group, worker, operation.stage,
                              operation.microbatch, kind, static_cast<std::uint32_t>(b) % kMostParts});
  }

  void scale_gradients(std::int32_t stage, std::uint32_t host) {
    const Stage& of = tasks_.stage(stage);
    if (parameters(plan_.spec.model, of.first_layer, of.layer_count) == 0) return;
    computed_ = tasks_.add_scaling_of_gradients(stage, host);
    after_waits(computed_);
  }

  /// What is computed on a stream after it follows by the order of the stream.
  void after_waits(TaskId task) {
    for (const TaskId message : waited_for_) builder_.add_edge(message, task);
    waited_for_.clear();
  }

  /// One kernel: behind that of the batch before, and behind all computation that was issued.
  void post(const std::vector<Operation>& messages, std::uint32_t host) {
    std::vector<TaskId> batch;
    for (const Operation& message : messages) {
      const TaskId task = add_message(here(message), /*same_call=*/!batch.empty(), host);
      if (computed_ != kNone) builder_.add_edge(computed_, task);
      if (!batches_.empty()) {
        for (const TaskId before : batches_.back()) builder_.add_edge(before, task);
      }
      batch.push_back(task);
    }
    batches_.push_back(std::move(batch));
  }

  TaskId add_message(const Operation& message, bool same_call, std::uint32_t host) {
    const TaskKind kind = task_kind(message.kind);
    const bool sends = is_send(kind);
    const std::int32_t own = message.stage, other = other_stage(kind, own);
    const std::uint32_t work =
        tasks_.transfer_work(kind, sends ? own : other, sends ? other : own, message.microbatch, same_call);
    return builder_.add_task({work, stream(kind, own, other), host,
                              pair_of(kind, std::max(own, other), message.microbatch), tasks_.worker_of(own), own,
                              message.microbatch, kind});
  }

  /// Messages of a batch run together, so that each has a stream; batches are kept apart by edges.
  std::uint32_t stream(TaskKind kind, std::int32_t own, std::int32_t other) const {
    const bool forward = carries_activations(kind);
    const StreamRole role = is_send(kind) ? (forward ? StreamRole::send_forward : StreamRole::send_backward)
                                          : (forward ? StreamRole::receive_forward : StreamRole::receive_backward);
    const auto processes = static_cast<std::int32_t>(plan_.parallel.mesh.pp);
    return stream_of(tasks_.worker_of(own), role, std::min(own, other) % stages_of_replica_ / processes);
  }

  /// The boundary below the higher stage, the micro-batch and the direction name the pair of a send and its receive.
  std::uint32_t pair_of(TaskKind kind, std::int32_t higher_stage, std::int32_t microbatch) {
    std::vector<std::uint32_t>& groups = carries_activations(kind) ? forward_pairs_ : backward_pairs_;
    groups.resize(plan_.stages.size() * plan_.microbatch_rows.size(), kNone);
    std::uint32_t& of_pair = groups[static_cast<std::size_t>(higher_stage) * plan_.microbatch_rows.size() +
                                    static_cast<std::size_t>(microbatch)];
    if (of_pair == kNone) of_pair = builder_.add_group();
    return of_pair;
  }

  const Plan& plan_;
  const StepOrder& order_;
  TaskGraphBuilder builder_;
  StageTasks tasks_{plan_, builder_};
  std::int32_t stages_of_replica_ = static_cast<std::int32_t>(std::ssize(plan_.stages) / plan_.parallel.mesh.dp);
  std::vector<std::int32_t> backwards_ = std::vector<std::int32_t>(plan_.stages.size());  // by stage: of this round
  std::map<std::array<std::int64_t, 3>, std::uint32_t> exchanges_;  // groups, by stage, micro-batch and bucket
  // Of the process whose actions are being added: its batches, what its next computation waits for, its last one.
  std::vector<std::vector<TaskId>> batches_;
  std::vector<TaskId> waited_for_;
  TaskId computed_ = kNone;
  std::int32_t replica_ = 0;
  std::vector<std::uint32_t> forward_pairs_, backward_pairs_;  // by stage and micro-batch
};

}  // namespace

TaskGraph pytorch_pipeline_step(const Plan& plan, const StepOrder& order) {
  return PytorchPipelineStep(plan, order).build();
}

std::vector<GradientBucket> buckets_of_stage(const Plan& plan, const Stage& stage) {
  if (plan.parallel.program != Program::pytorch_pipeline || plan.parallel.mesh.dp == 1) return {};
  const auto first = plan.spec.model.layers.begin() + stage.first_layer;
  const Model wrapped{std::vector<Layer>(first, first + stage.layer_count)};
  std::vector<GradientBucket> buckets =
      gradient_buckets(wrapped, plan.spec.first_bucket_bytes, plan.spec.bucket_bytes,
                       is_amp(plan.spec.dtype) ? GradientOrder::weight_first : GradientOrder::bias_first);
  for (GradientBucket& bucket : buckets) bucket.lowest_layer += stage.first_layer;
  return buckets;
}

std::int64_t blocks_of_message(std::int64_t ranks) {
  constexpr std::int64_t kChannels = 32;
  const auto group =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(ranks, 1))));
  return std::max<std::int64_t>(1, kChannels / group);
}

std::int64_t eager_message_bytes(std::int64_t ranks) {
  constexpr std::int64_t kBufferBytes = std::int64_t{4} << 20;
  return kBufferBytes * blocks_of_message(ranks);
}

}  // namespace pdl
