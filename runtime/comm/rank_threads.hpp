// A thread a rank, all at once, where one process has several ranks: probes, tests.
//
//   on_rank_threads(2, "all-reduces of 2 ranks", [&](int rank) { times[rank] = all_reduce_times(store, rank); });
//
// Returns when all have ended. A rank that never ends, because it waits for one that has failed or for ever, ends the
// process after the limit on waiting (runtime/comm/waiting.hpp), which says for every rank where it is, or why it
// failed.
#pragma once

#include <functional>
#include <string>

namespace pdl {

/// Throws the exception of the lowest rank that failed. `what`: of the message at the limit. Where process groups are
/// made on these threads: allow_ranks_in_threads() (runtime/comm/process_group.hpp) before.
void on_rank_threads(int ranks, const std::string& what, const std::function<void(int rank)>& body);

}  // namespace pdl
