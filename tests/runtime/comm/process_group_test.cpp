// Process groups of c10d in several threads of one process.
#include "runtime/comm/process_group.hpp"

#include <ATen/ATen.h>

#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "tests/support/catch.hpp"

using namespace pdl;

#if PDL_GLOO

TEST_CASE("Threads that start all-reduces in groups of their own do not disturb each other", "[runtime][data_parallel]") {
  // The first all-reduce of every group writes to a map that all groups of a process share.
  constexpr int kThreads = 6, kGroups = 40;
  std::vector<float> sums(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&sums, t] {
      for (int g = 0; g < kGroups; ++g) {
        const auto gloo = make_gloo_backend(c10::make_intrusive<c10d::HashStore>(), 0, 1);
        std::vector<at::Tensor> tensors = {at::ones({4})};
        start_all_reduce(*gloo, tensors)->wait();
        sums[static_cast<std::size_t>(t)] += tensors[0].sum().item<float>();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(sums == std::vector<float>(kThreads, 4 * kGroups));
}

#endif
