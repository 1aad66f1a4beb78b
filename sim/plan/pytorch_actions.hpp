// What each process of a pipeline of PyTorch issues in a step, in the order of its Python program: computation,
// messages and waits for messages. As torch.distributed.pipelining of PyTorch 2.11 does it (schedules.py):
//
//   ScheduleGPipe, 2 stages, 2 micro-batches      (ScheduleGPipe._step_microbatches)
//     process 0   F0 send{F0}  F1 send{F1}   wait(F0) wait(F1)   receive{B0} wait  B0   receive{B1} wait  B1
//     process 1   receive{F0} wait  F0   receive{F1} wait  F1   B0 send{B0}   B1 send{B1}   wait(B0) wait(B1)
//
//   Schedule1F1B       a send and the receive after it are one batch to one peer: {send F1, receive B0}; in the
//                      warm-up and at the end, where there is no such receive, a send alone, for which the next one
//                      waits
//   all others         _PipelineScheduleRuntime: messages are put into the order of computation by a dry run
//                      (_add_send_recv): each sender puts the receive of its message into the order of the receiver, so
//                      that receives stand long before who needs them. Each message is a batch; receives are waited for
//                      before the operation that needs them, sends at the end of the step.
//
// A split backward of the model's first stage (which has no input gradient) is nothing for the input, and the whole
// backward for the weights (PipelineStage.backward_one_chunk, backward_weight_one_chunk of stage.py).
//
// Not here: what a batch is on the GPU (sim/plan/pytorch_pipeline_step.hpp); FSDP; connections with other stages than
// the neighbours.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/spec/schedule.hpp"

namespace pdl {

struct PytorchAction {
  enum class Kind : std::uint8_t {
    compute,  // `operations`: one
    post,     // `operations`: messages that are started together
    wait,     // all later computation of the process waits for this batch
    scale     // `operations`: one, of the stage whose gradients are divided by the micro-batches; which is not said
  };
  Kind kind = Kind::compute;
  std::vector<Operation> operations;
  std::int32_t batch = -1;  // post, wait: from 0, of this process
  bool operator==(const PytorchAction&) const = default;
};

/// By process, of one step of the schedule's class, whose computation is `order`. `pytorch_class` as Schedule has it;
/// empty: a file's, which _PipelineScheduleRuntime runs. `scales_gradients`: the schedule was made with scale_grads,
/// PyTorch's default: GPipe and 1F1B divide the gradients after the last wait, all others those of a stage behind its
/// last backward (REDUCE_GRAD). Throws CannotRun for an order into which no messages can be put.
std::vector<std::vector<PytorchAction>> pytorch_actions(const PipelineOrder& order, std::string_view pytorch_class,
                                                        bool scales_gradients = false);

}  // namespace pdl
