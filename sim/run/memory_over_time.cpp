#include "sim/run/memory_over_time.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "sim/memory/memory.hpp"
#include "sim/run/plan_of_run.hpp"

namespace pdl {
namespace {

/// Of a run that does not say: none, on the GPU that its environment names.
WorkspaceBytes workspaces_of(const RunResult& run) {
  if (run.workspaces) return *run.workspaces;
  const bool known = run.environment.is_object() && run.environment.contains("multiprocessors") &&
                     run.environment["multiprocessors"].is_number_integer();
  return {.multiprocessors = known ? run.environment["multiprocessors"].get<std::int64_t>() : 0};
}

/// Changes of one task that go one way are one sample: nothing between them is higher than the last, or lower.
std::vector<BytesByCategory> levels_of_task(std::span<const MemoryChange> changes, BytesByCategory& now) {
  std::vector<BytesByCategory> levels;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    now[static_cast<std::size_t>(changes[i].category)] += changes[i].bytes;
    if (i > 0 && (changes[i - 1].bytes > 0) == (changes[i].bytes > 0)) levels.pop_back();
    levels.push_back(now);
  }
  return levels;
}

GpuMemoryOverTime over_time(const GpuMemory& memory, const Timeline& timeline) {
  GpuMemoryOverTime out{{{0, memory.at_start}}, total_bytes(memory.at_start)};
  BytesByCategory now = memory.at_start;
  const std::span<const MemoryChange> changes(memory.changes);
  for (std::size_t begin = 0, end = 0; begin < changes.size(); begin = end) {
    while (end < changes.size() && changes[end].task == changes[begin].task) ++end;
    const Span& span = timeline.spans[changes[begin].task];
    const std::vector<BytesByCategory> levels = levels_of_task(changes.subspan(begin, end - begin), now);
    const auto steps = std::max<std::int64_t>(std::ssize(levels) - 1, 1);
    for (std::int64_t i = 0; i < std::ssize(levels); ++i) {
      // In two parts: a product of nanoseconds and steps may leave 64 bits.
      const std::int64_t duration = span.end_ns - span.start_ns;
      const std::int64_t at = span.start_ns + duration / steps * i + duration % steps * i / steps;
      out.samples.push_back({std::max(at, out.samples.back().time_ns), levels[static_cast<std::size_t>(i)]});
      out.peak_bytes = std::max(out.peak_bytes, total_bytes(levels[static_cast<std::size_t>(i)]));
    }
  }
  return out;
}

void add_to_other(GpuMemoryOverTime& memory, std::int64_t bytes) {
  for (MemorySample& sample : memory.samples) sample.bytes[static_cast<std::size_t>(MemoryCategory::other)] += bytes;
  memory.peak_bytes += bytes;
}

}  // namespace

std::vector<GpuMemoryOverTime> memory_over_time(const RunResult& run) {
  const std::optional<Plan> plan = plan_of_run(run);
  if (!plan) return {};
  std::vector<GpuMemoryOverTime> out;
  for (const GpuMemory& memory : replay_memory(*plan, workspaces_of(run)))
    out.push_back(over_time(memory, run.timeline));
  for (std::size_t g = 0; g < out.size() && g < run.peak_memory_bytes.size(); ++g)
    add_to_other(out[g], std::max<std::int64_t>(run.peak_memory_bytes[g] - out[g].peak_bytes, 0));
  return out;
}

}  // namespace pdl
