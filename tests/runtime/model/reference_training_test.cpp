#include "runtime/model/reference_training.hpp"

#include <limits>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/cpu_training.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("Losses are compared against the way that the fp32 loss has gone", "[runtime][data_parallel]") {
  // From 1.000 to 0.996: a hundredth of the loss is more than twice that way.
  const std::vector<double> fp32 = {1.000, 0.998, 0.996};
  const LossAgreement near = compare_losses({1.0001, 0.9981, 0.9961}, fp32);
  CHECK(near.relative_difference == Approx(0.025));
  CHECK(near.fall == Approx(0.004));
  CHECK(near.equal);
  CHECK_FALSE(compare_losses({1.000, 1.000, 1.000}, fp32).equal);  // no updates
  CHECK(compare_losses({1.000, 1.000, 1.000}, fp32).relative_difference == Approx(1));
  CHECK_FALSE(compare_losses({1.000, 0.999, 0.998}, fp32).equal);  // of half the length
  CHECK_FALSE(compare_losses({1.001, 0.999, 0.997}, fp32).equal);  // other data
  CHECK_FALSE(compare_losses({1.000, 0.998, std::numeric_limits<double>::quiet_NaN()}, fp32).equal);
  CHECK_FALSE(compare_losses({1, 1, 1}, {1, 1, 1}).equal);  // which shows nothing
}

TEST_CASE("The learning rate of a check makes the loss fall in every step, and is near the largest that does",
          "[runtime][data_parallel]") {
  for (const std::string flags : {"--dim 16 --depth 4 --batch 13", "--dim 64 --depth 8 --batch 64",
                                  "--dim 32 --depth 3 --batch 16 --optimizer adam"}) {
    INFO(flags);
    const RunSpec s = spec(flags);
    constexpr int kSteps = 12;
    RuntimeOptions options = cpu_training("sgd", 7);
    const auto falls = [&](double rate) {
      options.learning_rate = rate;
      const std::vector<double> losses = reference_losses(s, options, at::kCPU, kSteps, {});
      for (std::size_t i = 1; i < losses.size(); ++i) {
        if (!(losses[i] < losses[i - 1])) return false;
      }
      return true;
    };
    const double rate = clear_learning_rate(s, options, at::kCPU, kSteps);
    CHECK(falls(rate));
    CHECK(falls(4 * rate));
    CHECK_FALSE(falls(16 * rate));
  }
}
