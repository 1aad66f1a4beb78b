// What the threads of this process wait for, and for how long at most: a wait that has no end ends the process, exit
// code 3, and standard error says what each thread was waiting for.
//
//   limit_waiting("pdl-calibrate", std::chrono::seconds(120));
//   const Waiting probe("probe collectives");                           // until the end of the scope
//   const Waiting rank("rank 1: the first all-reduce of 2 ranks");      // on another thread
//
//   pdl-calibrate: nothing has moved for 120 s (--wait-limit):
//     probe collectives
//     rank 1: the first all-reduce of 2 ranks
//
// The limit is on the time in which no Waiting of this process begins, is renewed or ends while at least one is there:
// a long calibration that gets on is never ended. Seconds in which the process is stopped (ctrl-Z) do not count. The
// blocking call itself need not cooperate (NCCL, cudaStreamSynchronize, a futex, a store): a thread of its own watches
// and calls _Exit.
//
// Each process has a limit of its own, so who waits for another process does not count that one's work: such a wait
// says when it hangs (`hangs`), for instance where the other process is stopped. Whoever starts a call that may block
// for ever makes the Waiting; StepProgram::step and on_rank_threads do.
//
// Not here: noticing that another process has died, which is faster (runtime/comm/rendezvous.hpp).
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <string>

namespace pdl {

/// Of this process, from now on. Before the first call: 600 s, "pdl-run". `program` begins the message, `advice` is its
/// last line.
void limit_waiting(const std::string& program, std::chrono::milliseconds limit, const std::string& advice = "");

/// What a wait may be limited to: --wait-limit of pdl-run and pdl-calibrate. c10d has a limit of a day.
inline constexpr double kShortestWaitLimit_s = 0.1, kLongestWaitLimit_s = 86'400;

class Waiting {
 public:
  explicit Waiting(std::string what);
  /// Both are called when the limit is reached, on another thread: they may read only what is safe to read there.
  /// `hangs` false: what is waited for is known to go on, and this wait alone does not end the process.
  explicit Waiting(std::function<std::string()> describe, std::function<bool()> hangs = [] { return true; });
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// It has got further: the time counts from now. Some 20 ns.
  static void renew();

 private:
  struct Entry {
    std::function<std::string()> describe;
    std::function<bool()> hangs;
  };
  friend struct WaitingRegistry;

  std::list<Entry>::iterator place_;
};

}  // namespace pdl
