#include "sim/plan/plan.hpp"
#include "sim/run/metrics.hpp"
#include "tests/sim/plan/drawn_step.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("one GPU: M x (forward + backward) and no bubble, for every strategy") {
  for (const std::string strategy : {"single", "mp", "pp", "dp", "ddp"}) {
    for (const std::string m : {"1", "3", "8"}) {
      const RunResult run = predict(
          spec("--gpus 1 --strategy " + strategy + " --microbatches " + m + " --tf 1 --tb 2 --tcomm 7"), nullptr);
      CAPTURE(strategy, m);
      CHECK(run.step_time.median_ms == 3 * std::stoi(m));
      CHECK(compute_metrics(run).bubble_fraction == 0);
    }
  }
}

TEST_CASE("a straggler costs everyone its sleep, a delay costs its sleep where nothing hides it") {
  // The sleep of rank 0 begins with the step; the others' all-reduces wait for it.
  const std::string flags = "--strategy ddp --gpus 4 --depth 4 --tf 4 --tb 8 --tcomm 4";
  CHECK(step_ms(flags + " --straggler 0:20") == 13 + 20);
  CHECK(step_ms(flags + " --straggler 3:20") == 13 + 20);
  // The host sleeps while the GPU is at its forward (nothing takes host time here): 10 ms, of which 4 are hidden.
  CHECK(step_ms(flags + " --delay-ms 10") == 13 + 6);
}

TEST_CASE("a plan has its spec resolved") {
  const Plan plan = make_plan(spec("--gpus 4 --dp 2 --depth 4 --dim 64 --batch 64"));
  CHECK(plan.parallel == resolve(plan.spec));
  CHECK(plan.parallel.mesh.gpus() == 4);
}
