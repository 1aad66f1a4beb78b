// Bubbles: the table of the zero-bubble paper, and the closed forms that `pdl-sim schedules` prints.
#include <fstream>
#include <sstream>

#include "sim/predict/predict.hpp"
#include "sim/run/metrics.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// Rows of a CSV file as words, without lines that start with #.
std::vector<std::vector<std::string>> csv_rows(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

struct Costs {
  int f = 1, b = 1, w = 1;  // of a GPU, ms; b: the input gradient
};

/// Idle time of the busiest GPU in a step, ms, with no transfer time. Its stages share its time.
double bubble_ms(const std::string& schedule, int p, int v, int m, const Costs& c) {
  const std::string n = std::to_string(p * v);
  const RunResult run =
      predict(spec("--schedule " + schedule + " --strategy pp --gpus " + std::to_string(p) + " --chunks " +
                   std::to_string(v) + " --depth " + n + " --microbatches " + std::to_string(m) + " --batch " +
                   std::to_string(8 * m) + " --tcomm 0 --tf " + std::to_string(c.f / v) + " --tb " +
                   std::to_string(c.b / v) + " --tw " + std::to_string(c.w / v)),
              nullptr);
  return run.step_time.median_ms - static_cast<double>(m * (c.f + c.b + c.w));
}

/// The form's value against the prediction, for P 1..8 and M from `least(P)` on, in steps that `schedule` takes.
template <typename Least, typename Form>
void check_form(const std::string& schedule, int v, const std::vector<Costs>& costs, Least least, Form form) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = least(p); m <= least(p) + 2 * p; ++m) {
      const Schedule& s = *find_schedule(schedule);
      if (!s.takes({p, v, m})) continue;
      for (const Costs& c : costs) {
        INFO(schedule << " P " << p << " V " << v << " M " << m << " F B W " << c.f << " " << c.b << " " << c.w);
        CHECK(bubble_ms(schedule, p, v, m, c) == Approx(form(p, m, c)).margin(1e-9));
      }
    }
  }
}

// Divisible by 6: halves and thirds of them are whole nanoseconds, too.
const std::vector<Costs> kAny = {{6, 6, 6}, {6, 12, 6}, {12, 6, 18}, {6, 18, 24}};
const std::vector<Costs> kShortWeights = {{6, 6, 6}, {6, 12, 6}, {12, 6, 6}, {18, 12, 6}};  // W <= F, B
const std::vector<Costs> kEqual = {{6, 6, 6}, {12, 12, 12}};

int one(int) {
  return 1;
}
int as_gpus(int p) {
  return p;
}

}  // namespace

TEST_CASE("zero-bubble table: 1F1B, ZB-H1 and ZB-H2") {
  const auto rows = csv_rows(PDL_SOURCE_DIR "/tests/golden/zero_bubble_rates.csv");
  REQUIRE(rows.size() == 7);
  CHECK(rows[0] == std::vector<std::string>{"p", "m", "tf_ms", "tb_ms", "tw_ms", "tcomm_ms", "bubble_1f1b",
                                            "bubble_zbh1", "bubble_zbh2", "bubble_zb1p", "bubble_zb2p"});
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const auto& row = rows[r];
    REQUIRE(row.size() == 11);
    const std::string flags = " --depth " + row[0] + " --gpus " + row[0] + " --microbatches " + row[1] + " --tf " +
                              row[2] + " --tb " + row[3] + " --tw " + row[4] + " --tcomm " + row[5];
    const std::vector<std::pair<std::string, std::size_t>> columns = {{"1f1b", 6}, {"zb-h1", 7}, {"zb-h2", 8}};
    for (const auto& [schedule, column] : columns) {
      INFO("row " << r << " " << schedule);
      const RunMetrics metrics = compute_metrics(predict(spec("--schedule " + schedule + flags), nullptr));
      CHECK(metrics.bubble_fraction == Approx(std::stod(row[column])).margin(5e-5));
    }
  }
}

TEST_CASE("closed forms without transfers: whole backwards") {
  const auto fill = [](int p, int, const Costs& c) { return (p - 1) * (c.f + c.b + c.w); };
  check_form("naive", 1, kAny, one, [&](int p, int m, const Costs& c) { return m * fill(p, m, c); });
  check_form("gpipe", 1, kAny, one, fill);
  check_form("1f1b", 1, kAny, one, fill);
  check_form("option-c", 1, kAny, one,
             [&](int p, int m, const Costs& c) { return std::max(m - 1, 1) * fill(p, m, c); });
}

TEST_CASE("closed forms without transfers: chunks") {
  for (int v = 1; v <= 3; ++v) {
    const auto share = [v](int p, int, const Costs& c) { return double((p - 1) * (c.f + c.b + c.w)) / v; };
    check_form("interleaved", v, kAny, as_gpus, share);
    check_form("looped-bfs", v, kAny, as_gpus, share);
    check_form("interleaved-zb", v, kShortWeights, as_gpus,
               [v](int p, int, const Costs& c) { return double((p - 1) * (c.f + c.b - c.w)) / v; });
  }
}

TEST_CASE("closed forms without transfers: split backwards") {
  check_form("zb-h1", 1, kShortWeights, as_gpus,
             [](int p, int, const Costs& c) { return (p - 1) * (c.f + c.b - c.w); });
  check_form(
      "zb-h2", 1, kShortWeights, [](int p) { return 2 * p - 1; },
      [](int p, int, const Costs& c) { return (p - 1) * (c.f + c.b - 2 * c.w); });
  const auto half_fill = [](int p, int, const Costs& c) { return (p - 1) * c.f / 2.; };
  check_form("zb-v", 2, kEqual, [](int p) { return 2 * p - 1; }, half_fill);
  check_form("dualpipe-v", 2, kEqual, [](int p) { return 2 * p; }, half_fill);
}
