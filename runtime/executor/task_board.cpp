#include "runtime/executor/task_board.hpp"

#include "runtime/executor/worker_threads.hpp"

namespace pdl {
namespace {

constexpr int kAborted = -1;

}  // namespace

TaskBoard::TaskBoard(std::size_t tasks) : tasks_(tasks), issued_(new std::atomic<int>[tasks]) {
  for (std::size_t t = 0; t < tasks_; ++t) issued_[t].store(0, std::memory_order_relaxed);
}

void TaskBoard::publish(TaskId task, int step) {
  issued_[task].store(step, std::memory_order_release);
  issued_[task].notify_all();
  throw_if_aborted();
}

void TaskBoard::wait(TaskId task, int step) {
  int now = issued_[task].load(std::memory_order_acquire);
  while (now != step && now != kAborted) now = wait_for_change(issued_[task], now);
  throw_if_aborted();
}

void TaskBoard::abort() {
  aborted_.store(true, std::memory_order_release);
  for (std::size_t t = 0; t < tasks_; ++t) {
    issued_[t].store(kAborted, std::memory_order_release);
    issued_[t].notify_all();
  }
}

void TaskBoard::throw_if_aborted() const {
  if (aborted()) throw StepAborted();
}

}  // namespace pdl
