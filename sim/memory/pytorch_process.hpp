// The memory of one process of torch.distributed.pipelining in a step, task by task in the order of its program.
//
//   receive     into a buffer that is there
//   forward     its result goes with the backward; for a stage of the same process it takes the place of the one of
//               the step before, and stays
//   backward    the stage's result is there until its end
//   send        a gradient goes; of Schedule1F1B, which has it in a variable, when the next one is sent
//   I           keeps the gradient of each layer's product (of a layer without one, of its result) for W, and all that
//               the forward kept; the gradient of the input stays in the input's .grad until the next step
//               (stage_backward_input of _backward.py). The last stage's result goes with the loss
//   W           layer by layer from the first one: a copy of that gradient (Python's sum() adds it to 0), the
//               gradients of the parameters, then what the layer has kept goes, results of ReLUs at the end; those of
//               the layer before are there until the next ones are (stage_backward_weight has them in variables)
//   autocast    its casts of parameters, which the first forward of a stage in a round makes, last to the end of the
//               round; the loss of a half output is of a copy in fp32, which is there from the forward on
//   DDP         buckets last for the whole training; a backward that is cut at buckets is one backward
//
// Sources: stage.py, schedules.py, _backward.py of PyTorch 2.11. Units: bytes. Internal to sim/memory.
#pragma once

#include "sim/memory/autograd_replay.hpp"

namespace pdl {

/// Buffers for what each micro-batch brings, made once for the whole training (PipelineStage._prepare_forward_infra,
/// _prepare_backward_infra of stage.py): the input of all stages but the model's first, the gradient of the result of
/// all but its last. Where the neighbouring stage is in the same process, its own tensor takes the buffer's place, and
/// stays there until the next step.
std::int64_t receive_buffer_bytes(const Replay& replay, std::size_t stage);

class PytorchProcess {
 public:
  /// `memory`: what is there between two steps. Both must outlive this.
  PytorchProcess(const Replay& replay, GpuMemory& memory);

  /// The next task. `loss_before`: what is kept of the losses of the step before.
  void add(TaskId id, const Task& task, const Work& work, std::int64_t loss_before);

 private:
  bool is_split(const Task& send) const { return send.stage == split_ && send.microbatch == split_microbatch_; }
  bool next_is_here(std::size_t stage) const;
  std::int64_t in_bytes(const Stage& stage, std::int64_t rows) const;
  std::int64_t out_bytes(const Stage& stage, std::int64_t rows) const;

  void end_round(Level level);
  void forward(std::size_t stage, const Work& work, Level level);
  void backward(std::size_t stage, const Work& work, Level level);
  void input_backward(std::size_t stage, const Work& work, Level level);
  void weight_backward(std::size_t stage, const Work& work, Level level);
  void send_backward(const Task& task, Level level);
  void optimizer(std::size_t stage, std::int64_t loss_before, Level level);

  const Replay& replay_;
  const Plan& plan_;
  GpuMemory& memory_;
  bool keeps_sent_;
  std::int64_t sent_ = 0;    // the gradient that was sent last
  std::int64_t kept_ = 0;    // gradients of inputs that split backwards have made in this step
  std::int32_t split_ = -1;  // stage and micro-batch of the last of them
  std::int32_t split_microbatch_ = -1;
  std::int64_t between_ = 0;  // of a backward that is cut: the gradient that the part before has left
  std::int32_t round_ = 0;
  std::int64_t casts_ = 0, casts_of_inputs_ = 0;  // of this round, under autocast
};

}  // namespace pdl
