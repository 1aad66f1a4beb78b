// Which process of a group this is, where one command was started several times (mpirun, srun), and where they meet.
//
//   mpirun -n 4 pdl-sim sweep ...       in each: ranks_of_environment() = {.rank = 0..3, .size = 4, ...}
//
// The program has no MPI in it: ranks and their number are words of the environment, of Open MPI, MPICH and Intel MPI
// (PMI_*), Slurm's steps, or RANK and WORLD_SIZE as torchrun has them. The ranks meet at a TCP port of rank 0's host.
// Not here: what they do together (sim/study/shared_sweep.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace pdl {

struct Ranks {
  std::int64_t rank = 0;
  std::int64_t size = 1;
  std::int64_t of_host = 1;  // ranks on this host, where that is known
  std::string address;       // the host of rank 0
  std::int64_t port = 0;     // MASTER_PORT, else one that follows from the name of the job
  std::string job;           // by which two groups on one host are told apart; empty: not known
};

/// Of a process that is one of several; nothing if it is alone. Throws InputError naming the variable: no number, a
/// rank beyond the size, several hosts without MASTER_ADDR. `variable`: nullptr where it is not set; std::getenv.
std::optional<Ranks> ranks_of_environment(const std::function<const char*(const char*)>& variable);

/// Processors that this process may use.
std::int64_t usable_cores();

}  // namespace pdl
