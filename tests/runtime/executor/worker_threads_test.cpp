#include "runtime/executor/worker_threads.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/executor/task_board.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("Every worker runs once a round, each on its own thread", "[runtime][threads]") {
  WorkerThreads threads(4);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::thread::id> ids(4);
    std::atomic<int> calls{0};
    threads.run([&](int worker) {
      ids[static_cast<std::size_t>(worker)] = std::this_thread::get_id();
      ++calls;
    });
    CHECK(calls == 4);
    CHECK(ids[0] == std::this_thread::get_id());
    for (int a = 0; a < 4; ++a) {
      for (int b = 0; b < a; ++b) CHECK(ids[static_cast<std::size_t>(a)] != ids[static_cast<std::size_t>(b)]);
    }
  }
}

TEST_CASE("A worker that fails ends those that wait for it, and its failure is the one reported",
          "[runtime][threads]") {
  WorkerThreads threads(3);
  TaskBoard board(2);
  const auto step = [&](int worker) {
    if (worker == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the others are asleep by now
      board.abort();
      throw std::runtime_error("worker 2 broke");
    }
    board.wait(static_cast<TaskId>(worker), 1);
  };
  CHECK_THROWS_WITH(threads.run(step), "worker 2 broke");
  CHECK(board.aborted());
  CHECK_THROWS_AS(board.wait(0, 1), StepAborted);
  // The threads themselves are sound.
  std::atomic<int> calls{0};
  threads.run([&](int) { ++calls; });
  CHECK(calls == 3);
}

TEST_CASE("A task of the step before does not count", "[runtime][threads]") {
  WorkerThreads threads(2);
  TaskBoard board(1);
  board.publish(0, 1);
  std::atomic<bool> published{false};
  bool waited = false;
  threads.run([&](int worker) {
    if (worker == 0) {
      board.wait(0, 2);
      waited = published;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      published = true;
      board.publish(0, 2);
    }
  });
  CHECK(waited);
}
