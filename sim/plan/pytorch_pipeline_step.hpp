// The step of a pipeline as PyTorch 2.11 runs it: a process a GPU, torch.distributed.pipelining, NCCL.
//
//   2 GPUs, 2 micro-batches, gpipe:
//
//     GPU 0   compute   F0 ──┐ F1 ──┐                 ┌ B0   ┌ B1   optimizer
//             NCCL           └ send F0 └ send F1   receive B0  receive B1
//     GPU 1   NCCL      receive F0  receive F1        ┌ send B0   ┌ send B1
//             compute             F0          F1   B0 ┘       B1 ┘   optimizer
//
// What differs from pdl-run's pipelines (sim/plan/pipeline_step.hpp), all from PyTorch's sources:
// - All messages of a process, whoever they are for, are on one NCCL stream in the order in which they are posted
//   (batch_isend_irecv of distributed_c10d.py coalesces; ProcessGroupNCCL::pointToPoint then takes the communicator of
//   the whole group): a receive whose sender is late holds up everything behind it.
// - A batch starts when all computation that was issued before it has ended (ProcessGroupNCCL's syncStream), also a
//   receive, which needs nothing of it. Computation waits for a batch where the program calls wait().
// - A message is a kernel: while it is there, also while it waits for its peer, it holds multiprocessors, and it waits
//   for them itself (sim/engine/multiprocessors.hpp).
// - A send ends by itself while NCCL's buffers take the message, above that with its receive. Measured on 2 x H200
//   (2026-11-30, NCCL 2.28.9): sends of up to 64 MiB end before their receive is posted, of 128 MiB do not; buffers are
//   4 MiB (NCCL_BUFFSIZE) for each of 16 blocks.
// - Layers are modules, backwards autograd's (Implementation::autograd), gradients are added by kernels of their own.
//
// Under AMP the program is
//
//   with torch.autocast("cuda", dtype): schedule.step(...)          a context for each round of accumulation
//
// so that a stage casts its parameters in its first forward of a round, and autocast keeps the casts until the context
// ends, behind the round (torch/amp/autocast_mode.py, __exit__: clear_autocast_cache; seen on the CPU: of four
// micro-batches one cast of a weight, and four of its gradient). What a Linear gives is half, so messages are, in both
// directions: PipelineStage must be told so by input_args and output_args. mse_loss is of copies in fp32, made with the
// forward. The backward runs in the context too, where a sum gives fp32 (autocast_mode.h): one more small cast of each
// bias's gradient, which is left out here. amp-fp16: each process has a GradScaler of its own, that of the last stage
// scales the losses; its step() unscales what the process has, and waits once on the host. Nobody exchanges what a
// process has found (found_inf): one of them may skip a step alone.
//
// Several replicas: each stage's module is wrapped by DistributedDataParallel over the GPUs that have this stage.
// PipelineStage runs all forwards and all backwards but the last of a round in no_sync(), prepares the Reducer before
// the last one itself (stage.py, backward_maybe_with_nosync), and so
//
//   compute      B2 | part of B3, in 0, part of B3, in 1    out 0  out 1 | what comes next, also the send of B3
//   collective                        all-reduce 0   all-reduce 1
//
// Buckets are DDP's usual ones, of a stage (1 MiB, then 25 MiB): the first forward of the second step rebuilds them,
// though in no_sync() (distributed.py, _pre_forward). The gradient of the last micro-batch leaves behind the exchange,
// so stages exchange one after another. Seen with 2 x 2 processes on the CPU.
//
// scale_grads: PyTorch divides gradients itself, tensor by tensor (stage.py, scale_grads). With losses that are divided
// it need not, which costs nothing.
//
// Which process issues what when: sim/plan/pytorch_actions.hpp. Not here: FSDP; hosts that sleep.
#pragma once

#include "sim/plan/plan.hpp"

namespace pdl {

/// `plan`: all but its graph. `order`: of all replicas and rounds. Throws as pytorch_actions().
TaskGraph pytorch_pipeline_step(const Plan& plan, const StepOrder& order);

/// DDP's of a stage, in the order in which they are full; layers are the model's, tensors the stage's. None where there
/// is one replica, or of another program.
std::vector<GradientBucket> buckets_of_stage(const Plan& plan, const Stage& stage);

/// Thread blocks of NCCL's kernel for a message between two GPUs of a host, in a group of so many. NCCL 2.28 has 32
/// channels of which each pair of ranks gets its share (enqueue.cc, nChannelsMin); seen: 16 blocks of 2 GPUs, 8 of 4.
std::int64_t blocks_of_message(std::int64_t ranks);

/// The largest message that a send puts into NCCL's buffers without its receive.
std::int64_t eager_message_bytes(std::int64_t ranks);

}  // namespace pdl
