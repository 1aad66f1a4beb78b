#include "sim/cost/task_cost.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"

namespace pdl {
namespace {

using Times = std::vector<std::int64_t>;

TEST_CASE("a list of kernels collapses into four numbers", "[task_cost]") {
  // host    |-2-|-2-|-2-|                     issue 6
  // stream      |--5--|-1|----10----|         device 16, first at 2, last ends at 18
  CHECK(collapse(Times{2, 2, 2}, Times{5, 1, 10}) == TaskCost{16, 6, 2, 18});
}

TEST_CASE("a host that is slower than its kernels decides the span", "[task_cost]") {
  // host    |---9---|---9---|
  // stream          |1|     |1|
  CHECK(collapse(Times{9, 9}, Times{1, 1}) == TaskCost{2, 18, 9, 19});
}

TEST_CASE("no kernels cost nothing, one kernel without issue is device time only", "[task_cost]") {
  CHECK(collapse(Times{}, Times{}) == TaskCost{});
  CHECK(collapse(Times{0}, Times{7}) == device_only(7));
}

TEST_CASE("lists of different lengths are a bug", "[task_cost]") {
  CHECK_THROWS_AS(collapse(Times{1}, Times{}), std::invalid_argument);
}

/// Kernel by kernel: each starts when it is issued and the stream is free of the one before.
TEST_CASE("the four numbers give the end of the list played kernel by kernel", "[task_cost]") {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int64_t> any(0, 20);
  for (int trial = 0; trial < 1000; ++trial) {
    Times issue, device;
    for (std::int64_t k = any(random) % 6 + 1; k > 0; --k) {
      issue.push_back(any(random));
      device.push_back(any(random));
    }
    const std::int64_t begin = any(random), stream_free = any(random) * 3;
    std::int64_t host = begin, stream = stream_free, first_start = -1;
    for (std::size_t k = 0; k < issue.size(); ++k) {
      host += issue[k];
      stream = std::max(stream, host);
      if (k == 0) first_start = stream;
      stream += device[k];
    }
    const TaskCost cost = collapse(issue, device);
    const std::int64_t start = std::max(stream_free, begin + cost.first_launch_ns);
    CHECK(start == first_start);
    CHECK(std::max(start + cost.device_ns, begin + cost.span_ns) == stream);
    CHECK(begin + cost.issue_ns == host);
  }
}

}  // namespace
}  // namespace pdl
