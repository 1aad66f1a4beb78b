// What the threads of this process wait for, and for how long at most: a wait that has no end ends the process, exit code 3,
// and standard error says what each thread was waiting for.
//
//   limit_waiting("pdl-calibrate", std::chrono::seconds(120));
//   const Waiting probe("probe collectives");                           // until the end of the scope
//   const Waiting rank("rank 1: the first all-reduce of 2 ranks");      // on another thread
//
//   pdl-calibrate: nothing has moved for 120 s (--wait-limit):
//     probe collectives
//     rank 1: the first all-reduce of 2 ranks
//
// The limit is on the time in which no Waiting of this process begins, is renewed or ends while at least one is there: a long
// calibration that gets on is never ended. Seconds in which the process is stopped (ctrl-Z) do not count. The blocking call
// itself need not cooperate (NCCL, cudaStreamSynchronize, a futex, a store): a thread of its own watches and calls _Exit.
//
// Not here: noticing that another process has died, which is faster (runtime/comm/rendezvous.hpp).
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <string>

namespace pdl {

/// Of this process, from now on. Before the first call: 600 s, "pdl-run". `program` begins the message.
void limit_waiting(const std::string& program, std::chrono::milliseconds limit);

class Waiting {
 public:
  explicit Waiting(std::string what);
  /// `describe` is called when the limit is reached, on another thread: it may read only what is safe to read there.
  explicit Waiting(std::function<std::string()> describe);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// It has got further: the time counts from now. Some 20 ns.
  static void renew();

 private:
  std::list<std::function<std::string()>>::iterator place_;
};

}  // namespace pdl
