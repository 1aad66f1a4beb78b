#include "runtime/executor/worker_threads.hpp"

#include <chrono>

namespace pdl {
namespace {

constexpr int kSpins = 2000;  // some 10 us
constexpr std::chrono::microseconds kYielding{200};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

int wait_for_change(const std::atomic<int>& value, int old) {
  for (int i = 0; i < kSpins; ++i) {
    if (const int now = value.load(std::memory_order_acquire); now != old) return now;
    pause();
  }
  const auto give_up = std::chrono::steady_clock::now() + kYielding;
  while (std::chrono::steady_clock::now() < give_up) {
    if (const int now = value.load(std::memory_order_acquire); now != old) return now;
    std::this_thread::yield();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

WorkerThreads::WorkerThreads(int count) : failures_(static_cast<std::size_t>(count)) {
  for (int i = 1; i < count; ++i) threads_.emplace_back([this, i] { serve(i); });
}

WorkerThreads::~WorkerThreads() {
  round_.store(-1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerThreads::call(int index) {
  try {
    (*body_)(index);
  } catch (...) {
    failures_[static_cast<std::size_t>(index)] = std::current_exception();
  }
}

void WorkerThreads::serve(int index) {
  int seen = 0;
  while (true) {
    seen = wait_for_change(round_, seen);
    if (seen < 0) return;
    call(index);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
  }
}

void WorkerThreads::run(const std::function<void(int)>& body) {
  body_ = &body;
  failures_.assign(failures_.size(), nullptr);
  running_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_acq_rel);
  round_.notify_all();
  call(0);
  for (int left = running_.load(std::memory_order_acquire); left > 0;) left = wait_for_change(running_, left);
  std::exception_ptr aborted;
  for (const std::exception_ptr& failure : failures_) {
    if (!failure) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const StepAborted&) {
      aborted = failure;
    }
  }
  if (aborted) std::rethrow_exception(aborted);
}

}  // namespace pdl
