// Calls into c10d from several threads of one process.
#include "runtime/comm/process_group.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "runtime/comm/rank_threads.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks_in_threads.hpp"

using namespace pdl;

namespace {

/// Where the ranks of a group meet.
struct Ring {
  std::mutex mutex;
  std::condition_variable changed;
  int here = 0;
};

/// As NCCL: the first call of a rank returns when all ranks of the group are in theirs.
class ConnectsInFirstCall : public c10d::Backend {
 public:
  ConnectsInFirstCall(Ring& ring, int rank, int size) : Backend(rank, size), ring_(ring) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    std::unique_lock lock(ring_.mutex);
    if (!connected_) ++ring_.here;
    connected_ = true;
    ring_.changed.notify_all();
    met = ring_.changed.wait_for(lock, std::chrono::seconds(20), [&] { return ring_.here == getSize(); });
    return {};
  }

  bool met = false;

 private:
  Ring& ring_;
  bool connected_ = false;
};

}  // namespace

TEST_CASE("Ranks that are threads can wait for each other inside the first all-reduce", "[runtime][data_parallel]") {
  constexpr int kRanks = 3;
  Ring ring;
  std::vector<int> met(kRanks);
  on_rank_threads(kRanks, "the first all-reduce", [&](int rank) {
    const auto backend = c10::make_intrusive<ConnectsInFirstCall>(ring, rank, kRanks);
    const Membership membership{c10::make_intrusive<c10d::HashStore>(), rank, kRanks, c10::Device(c10::kCPU), true};
    const auto group = make_watched_group(membership, backend, {});
    std::vector<at::Tensor> nothing;
    group->getBackend(c10::kCPU)->allreduce(nothing);
    met[static_cast<std::size_t>(rank)] = backend->met;
  });
  CHECK(met == std::vector<int>(kRanks, 1));
}

#if PDL_GLOO
TEST_CASE("Ranks that are threads share no record of their calls", "[runtime][data_parallel]") {
  // The recorder that threads must not share is off for the whole process (runtime/comm/process_group.hpp).
  CHECK(std::string(std::getenv("TORCH_FR_BUFFER_SIZE")) == "0");
  constexpr int kRanks = 4, kGroups = 20;
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<double> sums(kRanks);
  on_rank_threads(kRanks, "first all-reduces", [&](int rank) {
    for (int g = 0; g < kGroups; ++g) {
      const auto own = c10::make_intrusive<c10d::PrefixStore>(std::to_string(g), store);
      const auto group = make_process_group({own, rank, kRanks, c10::Device(c10::kCPU), true}, {});
      std::vector<at::Tensor> tensors = {at::full({8}, rank + 1.0)};
      group->allreduce(tensors)->wait();
      sums[static_cast<std::size_t>(rank)] += tensors[0][0].item<double>();
      leave(*group, c10::kCPU);
    }
  });
  CHECK(sums == std::vector<double>(kRanks, 10.0 * kGroups));
}
#endif
