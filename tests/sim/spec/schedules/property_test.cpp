// Every schedule, every shape of a small box: P 1..8, M 1..16, V 1..3.
#include <functional>
#include <set>

#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/metrics.hpp"
#include "tests/oracle/slow_schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

std::string text_of(const Schedule& s, const ScheduleShape& shape) {
  return std::string(s.name) + " P " + std::to_string(shape.workers) + " M " + std::to_string(shape.microbatches) +
         " V " + std::to_string(shape.chunks);
}

bool accepted(const Schedule& s, const ScheduleShape& shape) {
  return s.least_chunks <= shape.chunks && shape.chunks <= s.most_chunks && s.takes(shape);
}

void for_every_shape(const std::function<void(const Schedule&, const ScheduleShape&)>& check) {
  for (const Schedule& s : schedules()) {
    for (std::int32_t p = 1; p <= 8; ++p) {
      for (std::int32_t m = 1; m <= 16; ++m) {
        for (std::int32_t v = 1; v <= 3; ++v) {
          if (accepted(s, {p, v, m})) check(s, {p, v, m});
        }
      }
    }
  }
}

const std::vector<SlowCosts> kCosts = {{1, 1, 1, 0}, {2, 3, 1, 0}, {3, 2, 5, 0}, {2, 3, 1, 4}};

/// The spec of a shape: costs of a stage in milliseconds, a layer a stage.
RunSpec spec_of(const Schedule& s, const ScheduleShape& shape, const SlowCosts& costs) {
  return spec("--strategy pp --schedule " + std::string(s.name) + " --gpus " + std::to_string(shape.workers) +
              " --chunks " + std::to_string(shape.chunks) + " --depth " + std::to_string(shape.stages()) +
              " --microbatches " + std::to_string(shape.microbatches) + " --batch " +
              std::to_string(8 * shape.microbatches) + " --tf " + std::to_string(costs.forward) + " --tb " +
              std::to_string(costs.input) + " --tw " + std::to_string(costs.weight) + " --tcomm " +
              std::to_string(costs.transfer));
}

}  // namespace

TEST_CASE("Every schedule is complete and in order") {
  std::set<std::string_view> seen;
  for_every_shape([&](const Schedule& s, const ScheduleShape& shape) {
    const std::string wrong = incompleteness(make_order(s, shape));
    if (!wrong.empty()) FAIL_CHECK(text_of(s, shape) << ": " << wrong);
    seen.insert(s.name);
  });
  CHECK(seen.size() == schedules().size());
}

TEST_CASE("Every schedule finishes and is no faster than the lower bound") {
  for_every_shape([](const Schedule& s, const ScheduleShape& shape) {
    const PipelineOrder order = make_order(s, shape);
    for (const SlowCosts& costs : kCosts) {
      const SlowRun run = run_slowly(order, costs);
      if (!run.finished) FAIL_CHECK(text_of(s, shape) << ": deadlock");
      if (run.step < lower_bound(order, costs, run, !s.splits_backward)) FAIL_CHECK(text_of(s, shape) << ": too fast");
    }
  });
}

TEST_CASE("Plan and engine take as long as the slow simulator for every schedule") {
  for_every_shape([](const Schedule& s, const ScheduleShape& shape) {
    const PipelineOrder order = make_order(s, shape);
    for (const SlowCosts& costs : {kCosts[1], kCosts[3]}) {
      const SlowRun slow = run_slowly(order, costs);
      std::int64_t step = slow.step;
      if (s.steps_overlap) {
        step = 0;
        for (std::size_t w = 0; w < slow.ends.size(); ++w) step = std::max(step, slow.ends[w] - slow.starts[w]);
      }
      const RunResult run = predict(spec_of(s, shape, costs), nullptr);
      if (run.step_time.median_ms != static_cast<double>(step)) {
        FAIL_CHECK(text_of(s, shape) << ": " << run.step_time.median_ms << " ms, the slow simulator " << step);
      }
    }
  });
}

TEST_CASE("No schedule deadlocks under rendezvous, and waiting for the other end makes none faster") {
  for_every_shape([](const Schedule& s, const ScheduleShape& shape) {
    RunSpec waits = spec_of(s, shape, kCosts[3]);
    const double eager_ms = predict(waits, nullptr).step_time.median_ms;
    waits.p2p = PointToPoint::rendezvous;
    try {
      const double ms = predict(waits, nullptr).step_time.median_ms;
      // A step from a worker's first operation to its last may get shorter when that operation starts later.
      if (!s.steps_overlap && ms < eager_ms) FAIL_CHECK(text_of(s, shape) << ": " << ms << " ms, eager " << eager_ms);
    } catch (const CannotRun& error) {
      FAIL_CHECK(text_of(s, shape) << ": " << error.what());
    }
  });
}

TEST_CASE("Live activations of every schedule are as its memory form says") {
  for_every_shape([](const Schedule& s, const ScheduleShape& shape) {
    const std::int32_t p = shape.workers, m = shape.microbatches, v = shape.chunks;
    const std::int32_t group = m / std::max(1, m / p);  // of an interleaved schedule
    const std::int32_t at_most = s.name == "naive"                       ? 1
                                 : s.name == "option-c"                  ? std::min(m, 2)
                                 : s.name == "1f1b" || s.name == "zb-h1" ? std::min(m, p)
                                 : s.name == "zb-h2"                     ? std::min(m, 2 * p - 1)
                                 : s.name == "interleaved"               ? std::min(m * v, (v - 1) * group + 2 * p - 1)
                                 : s.name == "interleaved-zb"            ? std::min(m * v, (v - 1) * group + p)
                                 : s.name == "zb-v"                      ? std::min(2 * m, 2 * p)
                                 : s.name == "dualpipe-v"                ? 2 * p + 1
                                                                         : m * v;  // gpipe, looped-bfs
    const RunResult run = predict(spec_of(s, shape, kCosts[0]), nullptr);
    std::int32_t most = 0;
    for (const LiveActivations& live : run.live) most = std::max(most, live.count);
    const bool short_zb_v = s.name == "zb-v" && m < 2 * p - 1;  // made for more micro-batches: it may keep fewer
    if (short_zb_v ? most > at_most : most != at_most) {
      FAIL_CHECK(text_of(s, shape) << ": " << most << " live chunk activations, expected " << at_most);
    }
  });
}

TEST_CASE("The slow simulator: drawn orders") {
  //  worker 0   F0 F1 .  .  B0 B0 .  B1 B1      a whole backward costs 2
  //  worker 1   .  F0 B0 B0 F1 B1 B1
  const PipelineOrder order = make_order(*find_schedule("1f1b"), {2, 1, 2});
  const SlowRun run = run_slowly(order, {1, 1, 1, 0});
  CHECK(run.finished);
  CHECK(run.step == 9);
  CHECK(run.ends == std::vector<std::int64_t>{9, 7});
  CHECK(run.starts == std::vector<std::int64_t>{0, 1});
  CHECK(run.work == std::vector<std::int64_t>{6, 6});
  CHECK(run_slowly(order, {1, 1, 1, 1}).step == 11);  // F0 and the last B0 arrive one later
  CHECK(lower_bound(order, {1, 1, 1, 1}, run, true) == 8);
  CHECK(lower_bound(order, {1, 1, 1, 0}, run, false) == 6);

  PipelineOrder stuck = order;
  std::swap(stuck.workers[0][0], stuck.workers[0][2]);  // 0B0 0F1 0F0
  CHECK_FALSE(run_slowly(stuck, {1, 1, 1, 0}).finished);
  CHECK(incompleteness(stuck) == "0B0 makes B");
  PipelineOrder missing = order;
  missing.workers[1].pop_back();
  CHECK(incompleteness(missing) == "stage 1 micro-batch 1 has only F");
  PipelineOrder twice = order;
  twice.workers[0].push_back({OperationKind::backward, 0, 1});
  CHECK(incompleteness(twice) == "0B1 makes FBB");
  PipelineOrder elsewhere = order;
  std::swap(elsewhere.workers[0], elsewhere.workers[1]);
  CHECK(incompleteness(elsewhere) == "1F0 on worker 0");
}
