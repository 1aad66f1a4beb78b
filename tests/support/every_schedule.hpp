// The schedules of the table that take given numbers, as flags: every_schedule(2, 4) is "--schedule naive --gpus 2
// --microbatches 4 ", "--schedule gpipe ...", ...
#pragma once

#include <string>
#include <vector>

#include "sim/spec/schedule.hpp"

namespace pdl {

inline std::vector<std::string> every_schedule(int gpus, int microbatches, bool with_recomputation = false) {
  std::vector<std::string> flags;
  for (const Schedule& schedule : schedules()) {
    const ScheduleShape shape{gpus, schedule.default_chunks, microbatches};
    if (!schedule.takes(shape)) continue;
    const bool neighbours_on_a_gpu = schedule.placement == Placement::v || (gpus == 1 && schedule.default_chunks > 1);
    if (with_recomputation && (schedule.splits_backward || neighbours_on_a_gpu)) continue;
    flags.push_back("--schedule " + std::string(schedule.name) + " --gpus " + std::to_string(gpus) +
                    " --microbatches " + std::to_string(microbatches) + (with_recomputation ? " --recompute 1 " : " "));
  }
  return flags;
}

}  // namespace pdl
