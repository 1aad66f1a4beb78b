// Layers at the power limit: the rule, and that its parameters are found again.
#include "sim/cost/power_limit.hpp"

#include <cmath>

#include "sim/cost/layer_time.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

/// Forward of a square layer of 4096 in TF32, each at full clock and sustained.
struct Probed : ProfileBuilder {
  Dtype dtype = Dtype::tf32;

  MeasuredKey key(Probe probe) const {
    MeasuredKey key = layer_key("forward", 4096, 4096);
    key.probe = probe;
    key.dtype = dtype;
    return key;
  }

  /// `sustained`: rows, and the FLOP/s that they have at full clock; slower as `slowdown` says of that.
  template <class Slowdown>
  void sustained(const std::vector<std::pair<std::int64_t, double>>& sizes, const Slowdown& slowdown) {
    Points full, limited;
    for (const auto& [rows, flops_per_s] : sizes) {
      MeasuredKey of = key(Probe::layer);
      of.size = rows;
      const double us = layer_flops(of) / flops_per_s * 1e6;
      full.emplace_back(rows, us);
      limited.emplace_back(rows, us * slowdown(flops_per_s));
    }
    add(key(Probe::layer), full);
    add(key(Probe::sustained), limited);
  }
};

const std::vector<std::pair<std::int64_t, double>> kSizes = {{128, 1e14},  {256, 2e14},  {512, 2.6e14},
                                                             {1024, 3e14}, {2048, 4e14}, {4096, 4.3e14}};

TEST_CASE("a power limit is found again from its probes", "[power_limit]") {
  const double limit = GENERATE(2.1e14, 2.5e14, 3.2e14), exponent = GENERATE(0.1, 0.26, 0.4);
  Probed probed;
  probed.sustained(kSizes, [&](double u) { return std::max(1.0, std::pow(u / limit, exponent)); });
  const PowerLimit found(probed.done(), Dtype::tf32);
  REQUIRE(found.flops_per_s());
  CHECK(*found.flops_per_s() == Approx(limit).epsilon(0.02));
  CHECK(found.exponent() == Approx(exponent).margin(0.011));
  for (const auto& [rows, u] : kSizes)  // each of them alone
    CHECK(found.slowdown(u, 1) == Approx(std::max(1.0, std::pow(u / limit, exponent))).epsilon(0.005));
}

TEST_CASE("a power limit below all probes is found too", "[power_limit]") {
  Probed probed;
  probed.sustained(kSizes, [&](double u) { return std::pow(u / 7e13, 0.26); });
  CHECK(PowerLimit(probed.done(), Dtype::tf32).slowdown(3e14, 1) == Approx(std::pow(3e14 / 7e13, 0.26)).epsilon(0.01));
}

TEST_CASE("one probe that is off does not move a power limit", "[power_limit]") {
  Probed probed;
  probed.sustained(kSizes, [&](double u) { return u == 3e14 ? 1.3 : std::max(1.0, std::pow(u / 2.5e14, 0.25)); });
  CHECK(PowerLimit(probed.done(), Dtype::tf32).slowdown(4e14, 1) == Approx(std::pow(1.6, 0.25)).epsilon(0.005));
}

TEST_CASE("bf16 slows down no more than fp16 does, which may", "[power_limit]") {
  const auto by = [](double exponent) {
    return [=](double u) { return std::max(1.0, std::pow(u / 2.5e14, exponent)); };
  };
  Probed probed;
  probed.dtype = Dtype::amp_fp16;
  probed.sustained(kSizes, by(0.2));
  probed.dtype = Dtype::amp_bf16;
  probed.sustained(kSizes, by(0.3));  // of a warmer card
  CHECK(PowerLimit(probed.done(), Dtype::amp_bf16).exponent() == Approx(0.2).margin(0.011));
  CHECK(PowerLimit(probed.done(), Dtype::amp_fp16).exponent() == Approx(0.2).margin(0.011));
  Probed cool;
  cool.dtype = Dtype::amp_fp16;
  cool.sustained(kSizes, by(0.3));
  cool.dtype = Dtype::amp_bf16;
  cool.sustained(kSizes, by(0.2));
  CHECK(PowerLimit(cool.done(), Dtype::amp_bf16).exponent() == Approx(0.2).margin(0.011));
  CHECK(PowerLimit(cool.done(), Dtype::amp_fp16).exponent() == Approx(0.3).margin(0.011));
}

TEST_CASE("no power limit: no probes, or nothing slows down", "[power_limit]") {
  CHECK_FALSE(PowerLimit().is_known());
  CHECK(PowerLimit().slowdown(1e20, 1) == 1);
  Probed probed;
  probed.sustained(kSizes, [](double) { return 1.015; });
  const CostProfile profile = probed.done();
  CHECK_FALSE(PowerLimit(profile, Dtype::amp_bf16).is_known());
  Probed one;
  one.sustained({{4096, 4e14}}, [](double) { return 1.2; });
  CHECK_FALSE(PowerLimit(one.done(), Dtype::tf32).is_known());  // a limit, and not which
  const PowerLimit none(profile, Dtype::tf32);
  CHECK(none.is_known());
  CHECK_FALSE(none.flops_per_s());
  CHECK(none.slowdown(1e20, 1) == 1);
}

// s^(1/p - 1) (1 + d (s - 1)) = over
TEST_CASE("a step slows by its mean, and less where less of it is layers", "[power_limit]") {
  const PowerLimit limit(2e14, 0.25);
  CHECK(limit.slowdown(1.9e14, 1) == 1);
  CHECK(limit.slowdown(3.2e14, 1) == Approx(std::pow(1.6, 0.25)));
  // A half: 1.15^3 (1 + .5 x .15) = 1.63495...
  CHECK(limit.slowdown(2e14 * std::pow(1.15, 3) * 1.075, 0.5) == Approx(1.15));
  CHECK(limit.slowdown(2e14 * std::pow(1.1, 3), 1e-9) == Approx(1.1));
  const PowerLimit steepest(2e14, PowerLimit::kLargestExponent);
  CHECK(steepest.slowdown(4e14, 0) == Approx(2));
}

}  // namespace
}  // namespace pdl
