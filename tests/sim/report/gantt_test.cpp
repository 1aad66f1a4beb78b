#include "sim/report/gantt.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"

using namespace pdl;

namespace {

/// The rows of the chart alone, at `columns` columns of time, without axis and legend.
std::string rows_of(const RunResult& run, std::size_t columns) {
  GanttStyle style;
  style.width = columns + 8;  // "GPU 0 |" before, "|" after
  const std::string chart = gantt(run, style);
  const std::size_t first = chart.find("GPU 0"), legend = chart.find("\nF0>") + 1;
  return chart.substr(first, legend - first);
}

}  // namespace

TEST_CASE("a column is what fills most of it") {
  const RunResult run = drawn_run(2, {{0, "aaaabbbb....BBBBBBBBAAAAAAAAoooo........"},
                                      {0, "....>>>>>>......................<<......"},
                                      {1, "......aaaabbbbBBBBBBBBAAAAAAAA......oooo"}});
  CHECK(rows_of(run, 40) ==
        "GPU 0 |F0>>F1>>~~..B1<<<<<<B0<<<<<<oooo~~......|\n"
        "GPU 1 |......F0>>F1>>B1<<<<<<B0<<<<<<......oooo|\n");
}

TEST_CASE("a name that does not fit is left out, the direction is not") {
  const std::string short_ones = "abcdefghij";
  CHECK(rows_of(drawn_run(1, {{0, short_ones + std::string(30, 'A')}}), 40) ==
        "GPU 0 |>>>>>>>>>>B0<<<<<<<<<<<<<<<<<<<<<<<<<<<<|\n");
}

TEST_CASE("where no name is drawn the legend explains none") {
  const RunResult run =
      drawn_run(1, {{0, "abcdefghijklABCDEFGHIJKLabcdefghijklABCDEFGHIJKL"}});  // less than a column each
  GanttStyle style;
  style.width = 48;
  const std::string named = gantt(drawn_run(1, {{0, "aaaaaaaaaaAAAAAAAAAA"}}), style), nameless = gantt(run, style);
  CHECK_THAT(named, ContainsSubstring("F0> forward of micro-batch 0   B0< backward"));
  CHECK_THAT(nameless, ContainsSubstring("\n> forward   < backward"));
  CHECK(nameless.find("F0") == std::string::npos);
}

TEST_CASE("at least 40 columns are used, whatever the width") {
  GanttStyle narrow, forty;
  narrow.width = 1;
  forty.width = 40;
  const RunResult run = drawn_run(1, {{0, "aaaaaaaaaaAAAAAAAAAA"}});
  CHECK(gantt(run, narrow) == gantt(run, forty));
}

TEST_CASE("no line is wider than the terminal, at any step time") {
  for (const double tf : {0.00001, 0.013, 1.0, 999.0, 123456.0}) {
    RunResult run = begin_result(make_plan(spec("--gpus 11 --microbatches 3 --schedule gpipe --tf 1 --tb 2")));
    run.timeline = simulate("--gpus 11 --microbatches 3 --schedule gpipe --tb 2 --tf " + std::to_string(tf)).timeline;
    GanttStyle style;
    for (const std::size_t width : {80, 100, 133}) {
      style.width = width;
      std::istringstream lines(gantt(run, style));
      std::string line, axis;
      std::getline(lines, axis);
      CHECK(axis.size() <= width);
      CHECK(axis.ends_with(" ms"));
      for (int row = 0; row < 11; ++row) {
        std::getline(lines, line);
        CHECK(line.size() == width);
      }
    }
  }
}

TEST_CASE("of many GPUs the first and the last are drawn") {
  CHECK(shown_rows(3, 32) == std::vector<std::size_t>{0, 1, 2});
  CHECK(shown_rows(7, 4) == std::vector<std::size_t>{0, 1, 5, 6});
  CHECK(shown_rows(7, 5) == std::vector<std::size_t>{0, 1, 2, 5, 6});
  RunResult run = begin_result(make_plan(spec("--gpus 100 --microbatches 2 --schedule gpipe --tf 1 --tb 2")));
  run.timeline = simulate("--gpus 100 --microbatches 2 --schedule gpipe --tf 1 --tb 2").timeline;
  const std::string chart = gantt(run, {});
  CHECK_THAT(chart, ContainsSubstring("... 68 GPUs are not drawn ..."));
  CHECK_THAT(chart, ContainsSubstring("GPU 15 |"));
  CHECK(chart.find("GPU 16 |") == std::string::npos);
  CHECK_THAT(chart, ContainsSubstring("GPU 84 |"));
  CHECK_THAT(chart, ContainsSubstring("GPU 99 |"));
}

TEST_CASE("a GPU with two stages has a row for each, labelled with it, and the legend says so") {
  const std::string flags = "--gpus 2 --depth 4 --chunks 2 --schedule interleaved --microbatches 2 --tf 1 --tb 2";
  RunResult run = begin_result(make_plan(spec(flags)));
  run.timeline = simulate(flags).timeline;
  // F 1 ms, B 2 ms a stage, 15 ms in all: 3 columns a ms.
  GanttStyle style;
  style.width = 45 + 11;
  const std::string chart = gantt(run, style);
  CHECK_THAT(chart, ContainsSubstring("GPU 0 s0 |F0>F1>      ......      ...      B0<<<<B1<<<<|\n"
                                      "      s2 |      F0>F1>......B0<<<<...B1<<<<            |\n"
                                      "GPU 1 s1 |...F0>F1>                  B0<<<<B1<<<<......|\n"
                                      "      s3 |...      F0>B0<<<<F1>B1<<<<            ......|\n"));
  CHECK_THAT(chart, ContainsSubstring("s0 stage 0, blank while its GPU computes for another stage"));
  std::istringstream lines(chart);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= style.width + 10);

  RunResult with_idle_gpu = run;
  with_idle_gpu.spec.gpus = 3;
  CHECK_THAT(gantt(with_idle_gpu, style), ContainsSubstring("\nGPU 2    |" + std::string(45, '.') + "|\n"));
  style.most_rows = 4;  // no room for its row
  CHECK_THAT(gantt(with_idle_gpu, style), ContainsSubstring("GPU 0 |0F0"));

  style.most_rows = 3;  // no room for four
  const std::string short_chart = gantt(run, style);
  CHECK_THAT(short_chart, ContainsSubstring("GPU 0 |0F0"));
  CHECK_THAT(short_chart, ContainsSubstring("0F0> forward of micro-batch 0 on stage 0"));
  CHECK(short_chart.find("s0 stage") == std::string::npos);
}

TEST_CASE("colours add to the letters and take nothing away") {
  const RunResult run = drawn_run(1, {{0, "aaaaabbbbbBBBBBBBBBBAAAAAAAAAAooooo....."}});
  GanttStyle style;
  const std::string plain = gantt(run, style);
  style.color = true;
  std::string colored = gantt(run, style);
  CHECK(colored != plain);
  for (std::size_t at; (at = colored.find('\x1b')) != std::string::npos;)
    colored.erase(at, colored.find('m', at) - at + 1);
  CHECK(colored == plain);
}
