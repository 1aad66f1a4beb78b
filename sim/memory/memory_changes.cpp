#include "sim/memory/memory_changes.hpp"

#include <algorithm>
#include <numeric>

namespace pdl {

const char* to_string(MemoryCategory category) {
  constexpr std::array<const char*, kMemoryCategories> kNames = {
      "parameters", "gradients", "optimizer state", "activations", "buckets", "workspaces", "other"};
  return kNames[static_cast<std::size_t>(category)];
}

std::int64_t total_bytes(const BytesByCategory& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

void GpuMemory::hold(MemoryCategory category, std::int64_t bytes) {
  const auto c = static_cast<std::size_t>(category);
  at_start[c] += bytes;
  now[c] += bytes;
  now_bytes += bytes;
  peak_bytes = std::max(peak_bytes, now_bytes);
}

void GpuMemory::take(TaskId task, MemoryCategory category, std::int64_t bytes) {
  if (bytes == 0) return;
  now[static_cast<std::size_t>(category)] += bytes;
  now_bytes += bytes;
  peak_bytes = std::max(peak_bytes, now_bytes);
  if (records) changes.push_back({task, category, bytes});
}

void GpuMemory::set(TaskId task, const BytesByCategory& bytes) {
  // What is freed first: nothing is counted twice.
  for (const bool freed : {true, false}) {
    for (std::size_t c = 0; c < kMemoryCategories; ++c) {
      const std::int64_t change = bytes[c] - now[c];
      if ((change < 0) == freed) take(task, static_cast<MemoryCategory>(c), change);
    }
  }
}

}  // namespace pdl
