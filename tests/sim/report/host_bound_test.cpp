// Sleeps change nothing in what bounds a step (more cases: tests/data_parallel/host_bound_test.cpp).
#include "sim/report/host_bound.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

TEST_CASE("a step that the host bounds is bound by it with a sleep in it, too") {
  CostProfile profile = tiny_profile();
  for (HostTime& host : profile.host) {
    if (host.key.name == "step_overhead") host.time_ns = host.p25_ns = 200'000;
  }
  // 547 us of GPU and 200 us of host; 10 ms of sleep would make 2 % of 27 %.
  const std::string small = "--dim 64 --depth 1 --batch 256 --microbatches 1";
  for (const char* sleeps : {"", " --delay-ms 10", " --straggler 0:10", " --delay-ms 10 --straggler 0:10 --accum 1"}) {
    INFO(sleeps);
    const double share = host_share(spec(small + sleeps), profile);
    CHECK(share == Approx(200.0 / 747).epsilon(1e-5));
    CHECK(share > kHostBoundShare);
  }
}
