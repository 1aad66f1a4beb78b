#include "sim/run/gpu_utilisation.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"

using namespace pdl;

TEST_CASE("utilisation counts kernels, no copies by the copy engine and no gaps") {
  const RunResult run = drawn_run(2, {{0, "aa..AA...o"}, {0, "..>......."}, {1, "...aAA...o"}});
  CHECK(kernel_share(run, 0) == Approx(0.5));
  CHECK(kernel_share(run, 1) == Approx(0.4));
}

TEST_CASE("utilisation counts sends by NCCL, which are kernels, and a collective that waits") {
  RunResult run = drawn_run(2, {{0, "aa..AA...o"}, {0, "..>......."}, {1, "...aAA...o"}});
  run.spec.transport = Transport::nccl;
  CHECK(kernel_share(run, 0) == Approx(0.6));
  // GPU 1's all-reduce begins 2 ms before the one of GPU 0, beside no other kernel, and spins until then.
  for (const auto& [gpu, start_ms] : {std::pair{0, 8}, std::pair{1, 6}}) {
    Span span;
    span.kind = TaskKind::all_reduce;
    span.stream = StreamRole::collective;
    span.worker = gpu;
    span.start_ns = start_ms * 1'000'000;
    span.end_ns = 9'000'000;
    run.timeline.spans.push_back(span);
  }
  CHECK(kernel_share(run, 0) == Approx(0.7));
  CHECK(kernel_share(run, 1) == Approx(0.7));
}
