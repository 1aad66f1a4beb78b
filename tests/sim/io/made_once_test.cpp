#include "sim/io/made_once.hpp"

#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("what cannot be made is tried again by the next caller, and made once") {
  MadeOnce<int> number;
  int tries = 0;
  const auto make = [&] {
    if (++tries == 1) throw std::runtime_error("not yet");
    return 7;
  };
  CHECK_THROWS_WITH(number.get(make), "not yet");
  CHECK(number.get(make) == 7);
  CHECK(number.get(make) == 7);
  CHECK(tries == 2);
}

TEST_CASE("callers in many threads have one value, also where the first of them fails") {
  MadeOnce<std::vector<int>> numbers;
  std::atomic<int> tries = 0, failures = 0, right = 0;
  const auto make = [&] {
    if (++tries == 1) throw std::runtime_error("not yet");
    return std::vector<int>{1, 2, 3};
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        try {
          right += numbers.get(make).size() == 3;
        } catch (const std::runtime_error&) {
          ++failures;
        }
      });
    }
  }
  CHECK(tries == 2);
  CHECK(failures == 1);
  CHECK(right == 7);
}
