// The step of a pipeline with one worker and one host thread a GPU: a task waits for the transfer, or the task of its
// own worker, that feeds it.
//
//   2 GPUs, 2 micro-batches, 1f1b, transport copy:
//
//     GPU 0   compute         F0   F1           B0      B1   optimizer
//             forward copy      └─F0─┐└─F1─┐    │       │
//     GPU 1   backward copy          │   ┌─B0───┘ ┌─B1──┘
//             compute                F0  B0   F1  B1   optimizer
//
// Transports: eager sends are tasks of the sender alone; with rendezvous a receive is a task too, and the two are a
// group. A schedule's file may say when messages are sent and received. Replicas: sim/plan/gradient_exchange.hpp.
#pragma once

#include "sim/plan/plan.hpp"

namespace pdl {

/// `plan`: all but its graph. `order`: of all replicas and rounds.
/// Of the first `workers` alone.
TaskGraph pipeline_step(const Plan& plan, const StepOrder& order, std::int32_t workers);

}  // namespace pdl
