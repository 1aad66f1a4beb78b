// --workers process: starts this program once a worker and sees to it that all of them end.
//
//   return launch_workers(4, port, {"--gpus", "4", "--workers", "process"});
//
// The children find each other through a store that this process holds (environment: RANK, WORLD_SIZE, LOCAL_RANK,
// MASTER_ADDR, MASTER_PORT, as torchrun sets them). When one ends badly, the others are killed; when this process is
// killed, the kernel kills them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pdl {

/// Returns when all have ended: the exit code of the run. `port`: none takes any free one. Says on standard error which
/// worker died, if one did. Throws InputError naming --port if it is in use.
int launch_workers(int workers, std::optional<int> port, const std::vector<std::string>& arguments);

/// In a worker, first thing: when the process that started it ends, however it ends, this one does. Does nothing in a
/// process that launch_workers did not start.
void end_with_launcher();

}  // namespace pdl
