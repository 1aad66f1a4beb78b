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

TEST_CASE("of an interval the moment with most bytes is drawn") {
  const std::vector<MemorySample> all = {sample(0, 1), sample(10, 5), sample(20, 2), sample(60, 3), sample(99, 9)};
  CHECK(peaks_of_intervals(all, 5).size() == 5);
  const std::vector<MemorySample> two = peaks_of_intervals(all, 2);
  REQUIRE(two.size() == 2);
  CHECK(two[0].time_ns == 10);
  CHECK(two[1].time_ns == 99);
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
  double sum = 0;
  for (const ChartSeries& series : figures[0].series) sum += series.y.at(1);
  CHECK(sum * 1024 * 1024 * 1024 == Approx(static_cast<double>(run.peak_memory_bytes.at(1))));
}
