#include "sim/report/memory_figure.hpp"

#include "sim/predict/predict.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

MemorySample sample(std::int64_t time_ns, std::int64_t activations) {
  MemorySample one{.time_ns = time_ns};
  one.bytes[static_cast<std::size_t>(MemoryCategory::activations)] = activations;
  return one;
}

}  // namespace

TEST_CASE("of many samples the first, and of each interval that with most bytes and the last are drawn") {
  const std::vector<MemorySample> all = {sample(0, 1),  sample(10, 5), sample(20, 4), sample(30, 2),
                                         sample(60, 9), sample(80, 8), sample(99, 3)};
  CHECK(thinned_samples(all, 7).size() == 7);
  const std::vector<MemorySample> kept = thinned_samples(all, 5);  // two intervals of 50 ns
  std::vector<std::int64_t> times;
  for (const MemorySample& one : kept) times.push_back(one.time_ns);
  CHECK(times == std::vector<std::int64_t>{0, 10, 30, 60, 99});
}

TEST_CASE("at the end of each interval a thinned chart has the true value, and the step's peak") {
  std::vector<MemorySample> all;
  for (std::int64_t t = 0; t < 10'000; ++t) all.push_back(sample(t, t * 7919 % 1009));
  const std::vector<MemorySample> kept = thinned_samples(all, 101);  // 50 intervals of 200 ns
  CHECK(kept.size() <= 101);
  CHECK(kept.front().time_ns == 0);
  const auto value_at = [](const std::vector<MemorySample>& samples, std::int64_t t) {
    std::int64_t bytes = -1;
    for (const MemorySample& one : samples) {
      if (one.time_ns <= t) bytes = total_bytes(one.bytes);
    }
    return bytes;
  };
  for (std::int64_t end = 199; end < 10'000; end += 200) CHECK(value_at(kept, end) == value_at(all, end));
  const auto most = [](const std::vector<MemorySample>& samples) {
    std::int64_t bytes = 0;
    for (const MemorySample& one : samples) bytes = std::max(bytes, total_bytes(one.bytes));
    return bytes;
  };
  CHECK(most(kept) == most(all));
}

TEST_CASE("a chart of memory a GPU, each category an area from the start of the step to its end") {
  const RunResult run = predict(spec("--gpus 2 --depth 4 --dim 64 --batch 64 --strategy mp --tf 1 --tb 2"), nullptr);
  const std::vector<ChartFigure> figures = memory_figures(run);
  REQUIRE(figures.size() == 2);
  CHECK(figures[1].title == "Memory of GPU 1");
  double peak = 0;
  std::vector<double> sums(figures[0].series.at(0).x.size(), 0.0);
  for (const ChartSeries& series : figures[0].series) {
    REQUIRE(series.x.size() == sums.size());
    CHECK(series.x.front() == 0);
    CHECK(series.x.back() * 1e6 == Approx(static_cast<double>(run.timeline.step_ns)));
    for (std::size_t i = 0; i < sums.size(); ++i) peak = std::max(peak, sums[i] += series.y[i]);
  }
  CHECK(peak * 1024 * 1024 * 1024 == Approx(static_cast<double>(run.peak_memory_bytes.at(0))));
}

TEST_CASE("where no memory changes during the step, one chart has a bar a GPU") {
  const RunResult run =
      predict(spec("--gpus 2 --depth 4 --dim 64 --batch 64 --microbatches 4 --schedule gpipe --tf 1 --tb 2"), nullptr);
  const std::vector<ChartFigure> figures = memory_figures(run);
  REQUIRE(figures.size() == 1);
  CHECK(figures[0].kind == ChartKind::stacked_bar);
  CHECK_THAT(figures[0].title, ContainsSubstring("a pipeline allocates all its buffers before"));
  double sum = 0;
  for (const ChartSeries& series : figures[0].series) sum += series.y.at(1);
  CHECK(sum * 1024 * 1024 * 1024 == Approx(static_cast<double>(run.peak_memory_bytes.at(1))));
}
