// The ranks of a group predict one sweep together: rank 0 hands out rows, the others send back what they predicted.
//
//   rank 0                                         rank 1 (2, 3, ...)
//   SharedSweep shared(ranks, identity, queue,     work_for_sweep(ranks, identity, threads, predict);
//                      take_record);
//   ... predicts rows of the queue too ...         <- {"rank": 1, "threads": 8, ...}
//   shared.finish();                               -> {"rows": [64, 65, ...]}    <- a record a row
//                                                  -> {"end": ""}
//
// They meet at a TCP port of rank 0's host, so that nothing else need be shared, no folder either. A rank that ends
// before its rows are there ends the sweep: nobody waits for it, and there is no answer without its rows. Ranks of
// other words, another profile or version are refused.
// Units: seconds. Not here: which rank this is (sim/study/ranks.hpp), what is predicted (sim/study/sweep.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "sim/io/line_socket.hpp"
#include "sim/study/ranks.hpp"
#include "sim/study/row_queue.hpp"
#include "sim/study/sweep_journal.hpp"

namespace pdl {

/// So long a rank waits for the others to begin.
inline constexpr double kLongestWait_s = 60;

/// Of rank 0.
class SharedSweep {
 public:
  /// `take_record` is called by several threads, with a line of sim/study/sweep_record.hpp. Queue and function must
  /// outlive this. Throws InputError if the port is taken.
  SharedSweep(const Ranks& ranks, const SweepIdentity& identity, RowQueue& queue,
              std::function<void(const std::string& record)> take_record, double longest_wait_s = kLongestWait_s);
  SharedSweep(const SharedSweep&) = delete;
  SharedSweep& operator=(const SharedSweep&) = delete;
  ~SharedSweep();

  /// True when the other ranks have sent all that they took, or something went wrong.
  bool done() const;

  /// Waits for them. Throws CannotRun for a rank that has ended too early or has not come, InputError for one with
  /// another sweep, and what `take_record` threw.
  void finish();

 private:
  struct Member {
    std::int64_t rank = 0;
    LineSocket socket;
    std::thread thread;
  };

  void accept_ranks();
  /// Its rank; throws InputError for a rank of another sweep. Nothing for who is no rank of this job.
  std::optional<std::int64_t> greet(LineSocket& socket, std::int64_t& threads);
  void serve(Member& member, std::int64_t threads);
  void fail(std::exception_ptr problem);

  const Ranks ranks_;
  const SweepIdentity identity_;
  RowQueue& queue_;
  const std::function<void(const std::string&)> take_record_;
  const double longest_wait_s_;
  LineListener listener_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Member>> members_;
  std::int64_t served_ = 0;  // members that have sent all
  std::exception_ptr problem_;
  std::thread acceptor_;
};

/// Of the other ranks: predicts what rank 0 hands out, until it has no more. `predict`: the records of those rows.
/// Throws CannotRun if there is no rank 0 or it ends too early, InputError if it has another sweep.
void work_for_sweep(const Ranks& ranks, const SweepIdentity& identity, std::int64_t threads,
                    const std::function<std::vector<std::string>(const std::vector<std::size_t>& rows)>& predict,
                    double longest_wait_s = kLongestWait_s);

}  // namespace pdl
