// Calls into c10d from several threads of one process.
#include "runtime/comm/process_group.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

/// A backend whose calls take a while, and which counts the threads inside of all of its kind.
class SlowBackend : public c10d::Backend {
 public:
  SlowBackend() : Backend(0, 1) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    const int now = ++inside;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --inside;
    ++calls;
    return {};
  }

  static inline std::atomic<int> inside{0}, most{0}, calls{0};
};

}  // namespace

TEST_CASE("All-reduces of different groups are started by one thread at a time", "[runtime][data_parallel]") {
  constexpr int kThreads = 4, kCalls = 5;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      SlowBackend own;
      std::vector<at::Tensor> nothing;
      for (int call = 0; call < kCalls; ++call) start_all_reduce(own, nothing);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(SlowBackend::calls == kThreads * kCalls);
  CHECK(SlowBackend::most == 1);
}
