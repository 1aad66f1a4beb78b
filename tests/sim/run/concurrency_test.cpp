#include "sim/run/concurrency.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"

using namespace pdl;

TEST_CASE("a relay has one GPU at work, a pipeline all of them") {
  const Concurrency relay = concurrency(drawn_run(2, {{0, "aa....AAo"}, {1, "..aaAA..o"}}));
  CHECK(relay.most == 1);
  CHECK(relay.average == 8.0 / 9);
  CHECK(relay.all_busy_ns == 0);
  const Concurrency pipeline = concurrency(drawn_run(2, {{0, "aabb..BBAA"}, {1, "..aabbBBAA"}}));
  CHECK(pipeline.most == 2);
  CHECK(pipeline.all_busy_ns == 6'000'000);
  CHECK(pipeline.average == 1.6);
}

TEST_CASE("fill and drain") {
  const FillAndDrain ends = fill_and_drain(drawn_run(2, {{0, "aabb.....BBAAo"}, {1, "...aabbBBAA..o"}}));
  CHECK(ends.fill_ns == 3'000'000);
  CHECK(ends.drain_ns == 2'000'000);
}

TEST_CASE("fill and drain by GPU: the last stage may be on the first one") {
  RunResult run = drawn_run(2, {{0, "aabbBBAAA."}, {1, "...aaAABBB"}});
  run.stages = {{{0}, 0, 1, 2, 2}, {{1}, 1, 1, 2, 2}, {{1}, 2, 1, 2, 2}, {{0}, 3, 1, 2, 2}};
  const FillAndDrain ends = fill_and_drain(run);
  CHECK(ends.fill_ns == 3'000'000);
  CHECK(ends.drain_ns == 1'000'000);
}
