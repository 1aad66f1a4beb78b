// One host thread a worker, alive for the whole run: worker 0 is the caller's own thread.
//
//   WorkerThreads threads(4);
//   threads.run([&](int worker) { walk(worker); });     // on all four at once; returns when all have finished
//
// Between two calls the threads spin for a moment, so that a step that follows at once starts within microseconds; then
// they sleep.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace pdl {

/// Thrown inside a worker because another one has failed: never the reason that is reported.
struct StepAborted : std::exception {
  const char* what() const noexcept override { return "another worker has failed"; }
};

class WorkerThreads {
 public:
  explicit WorkerThreads(int count);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  /// Throws the exception of the lowest worker that failed by itself (not StepAborted), after all have finished.
  void run(const std::function<void(int)>& body);

 private:
  void serve(int index);
  void call(int index);

  const std::function<void(int)>* body_ = nullptr;
  std::atomic<int> round_{0};    // counts calls of run(); negative: end
  std::atomic<int> running_{0};  // threads, besides the caller's, that have not finished this round
  std::vector<std::exception_ptr> failures_;
  std::vector<std::thread> threads_;
};

/// Waits until `value` differs from `old`: spins, yields, then sleeps (futex). Returns the new value.
int wait_for_change(const std::atomic<int>& value, int old);

}  // namespace pdl
