// For tests in which threads are the ranks of process groups: before the first group of the test program.
#pragma once

#include "runtime/comm/process_group.hpp"

namespace pdl {

inline const bool kRanksInThreads = (allow_ranks_in_threads(), true);

}  // namespace pdl
