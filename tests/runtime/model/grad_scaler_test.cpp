#include "runtime/model/grad_scaler.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

/// Steps with gradients of 1 ("."), or with an infinity or a NaN in one of them ("i", "n").
struct Trained {
  int optimizer_steps = 0;
  double scale = 0;
};

Trained train(const std::string& steps, double scale = 65536) {
  GradScaler scaler(scale, at::kCPU);
  Trained trained;
  for (const char step : steps) {
    const double bad = step == 'i' ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    std::vector<at::Tensor> gradients{at::full({2, 3}, scaler.current_scale()), at::full({3}, scaler.current_scale())};
    if (step != '.') gradients[1][2] = bad;
    scaler.unscale(gradients);
    if (!scaler.found_inf()) {
      ++trained.optimizer_steps;
      CHECK(at::equal(gradients[0], at::ones({2, 3})));
    }
    scaler.update();
  }
  trained.scale = scaler.current_scale();
  return trained;
}

}  // namespace

TEST_CASE("k of N steps with infinities: N - k optimizer steps, the scale halved k times", "[runtime][data_parallel]") {
  struct Row {
    std::string steps;
    int optimizer_steps;
    double scale;
  };
  const std::vector<Row> table = {
      {"", 0, 65536},
      {"....", 4, 65536},
      {"i", 0, 32768},
      {"n", 0, 32768},
      {"iii", 0, 65536 / 8.0},
      {"iii...", 3, 65536 / 8.0},
      {".i.n.", 3, 65536 / 4.0},
      {std::string(16, 'i'), 0, 1},
      {std::string(17, 'i'), 0, 0.5},
  };
  for (const Row& row : table) {
    INFO(row.steps);
    const Trained trained = train(row.steps);
    CHECK(trained.optimizer_steps == row.optimizer_steps);
    CHECK(trained.scale == row.scale);
  }
}

TEST_CASE("The scale doubles after 2000 steps in a row without infinities", "[runtime][data_parallel]") {
  const std::string good(GradScaler::kGrowthInterval - 1, '.');
  CHECK(train(good, 8).scale == 8);
  CHECK(train(good + ".", 8).scale == 16);
  CHECK(train(good + "i" + good, 8).scale == 4);  // the count starts anew
  CHECK(train(good + "i" + good + ".", 8).scale == 8);
}

TEST_CASE("A loss is multiplied by the scale, an infinity of one device stops all", "[runtime][data_parallel]") {
  GradScaler scaler(1024, at::kCPU);
  CHECK(scaler.scale(at::full({}, 0.5)).item<double>() == 512);
  scaler.unscale({at::ones({2})});
  CHECK_FALSE(scaler.found_inf());
  scaler.unscale({at::full({2}, std::numeric_limits<double>::infinity())});  // the next device
  CHECK(scaler.found_inf());
  scaler.update();
  CHECK(scaler.current_scale() == 512);
}
