// What is allocated on one GPU in a step: what is there between two steps, by what it is, and what each task adds and
// frees, in the order in which the host issues the tasks.
//
//   GpuMemory memory;
//   memory.take(task, MemoryCategory::activations, 512);
//   memory.now[...], memory.peak_bytes, memory.changes      // {task, activations, +512}
//
// What belongs to which category:
//
//   parameters       the model's; under DataParallel also the copies of the replicas
//   gradients        of parameters, in fp32 or as the backward makes them
//   optimizer_state  Adam's two moments and its step counts
//   activations      what a forward gives and keeps for its backward, and the gradients of these
//   buckets          DDP's buckets of gradients; tensors that DataParallel puts together to send them at once
//   workspaces       what libraries hold (cuBLAS)
//   other            the batch and its targets, terms of the loss, autocast's copies of weights, buffers of one kernel
//
// Units: bytes. Not here: times (sim/run/memory_over_time.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/plan/plan.hpp"

namespace pdl {

enum class MemoryCategory : std::uint8_t {
  parameters,
  gradients,
  optimizer_state,
  activations,
  buckets,
  workspaces,
  other
};
inline constexpr std::size_t kMemoryCategories = 7;

/// "parameters", "optimizer state".
const char* to_string(MemoryCategory category);

/// In the order of MemoryCategory.
using BytesByCategory = std::array<std::int64_t, kMemoryCategories>;
std::int64_t total_bytes(const BytesByCategory& bytes);

struct MemoryChange {
  TaskId task = 0;
  MemoryCategory category = MemoryCategory::other;
  std::int64_t bytes = 0;  // below 0: freed
};

/// One GPU's. `changes` is filled only while `records` is set: a search asks for the peak of thousands of plans.
struct GpuMemory {
  BytesByCategory at_start{};
  BytesByCategory now{};
  std::int64_t now_bytes = 0;  // the sum of `now`
  std::int64_t peak_bytes = 0;
  bool records = false;
  std::vector<MemoryChange> changes;

  /// Before the first task: what is there between two steps.
  void hold(MemoryCategory category, std::int64_t bytes);
  void take(TaskId task, MemoryCategory category, std::int64_t bytes);
  void give(TaskId task, MemoryCategory category, std::int64_t bytes) { take(task, category, -bytes); }
  /// Everything is as it was at another moment.
  void set(TaskId task, const BytesByCategory& bytes);
};

}  // namespace pdl
