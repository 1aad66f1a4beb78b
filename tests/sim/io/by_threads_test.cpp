#include "sim/io/by_threads.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("each piece of work is done once, by any number of threads") {
  for (const std::int64_t threads : {0, 1, 3, 100}) {
    std::vector<int> done(50, 0);
    by_threads(done.size(), threads, [&](std::size_t i) { ++done[i]; });
    CHECK(done == std::vector<int>(50, 1));
  }
  by_threads(0, 4, [](std::size_t) { throw std::logic_error("there is no piece"); });
}

TEST_CASE("all is done although some throw, and the first error in the order of the pieces is thrown") {
  for (const std::int64_t threads : {1, 4}) {
    std::atomic<int> done = 0;
    const auto work = [&](std::size_t i) {
      ++done;
      if (i % 3 == 2) throw std::runtime_error("piece " + std::to_string(i));
    };
    CHECK_THROWS_WITH(by_threads(20, threads, work), "piece 2");
    CHECK(done == 20);
  }
}

TEST_CASE("the caller's thread is told after its own pieces") {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> own = 0;
  int told = 0;
  const auto after_own = [&] {
    ++told;
    CHECK(std::this_thread::get_id() == caller);
  };
  by_threads(40, 3, [&](std::size_t) { own += std::this_thread::get_id() == caller ? 1 : 0; }, after_own);
  CHECK(told == own);
}
