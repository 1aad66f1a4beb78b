// Layers at full clock: what large products took longer in their probes is left out, and nothing else.
#include "sim/cost/probe_clock.hpp"

#include <cmath>

#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

/// Products of 2 x 10^12 FLOP take e^.04 times what smaller ones say; those of 10^10 have the highest clock.
CostProfile with_clocks() {
  CostProfile profile = ProfileBuilder().done();
  ProductModel model;
  model.clocks = {{Dtype::amp_bf16, {1e9, 1e10, 2e12}, {0.1, -0.01, 0.03}}};
  profile.products = model;
  return profile;
}

MeasuredKey layer(const char* operation, std::int64_t rows, std::int64_t in, std::int64_t out) {
  MeasuredKey key = ProfileBuilder::layer_key(operation, in, out, rows);
  key.dtype = Dtype::amp_bf16;
  return key;
}

TEST_CASE("a large product is at full clock without what its probe took longer", "[probe_clock]") {
  const CostProfile profile = with_clocks();
  const double whole = std::exp(-0.04);
  CHECK(at_full_clock(profile, layer("forward", 10000, 10000, 10000), {}) == Approx(whole));   // 2 x 10^12 FLOP
  CHECK(at_full_clock(profile, layer("backward", 10000, 10000, 10000), {}) == Approx(whole));  // twice as many
  CHECK(at_full_clock(profile, layer("forward", 100, 1000, 1000), {}) == 1);
  CHECK(at_full_clock(profile, layer("forward", 10, 1000, 1000), {}) == 1);  // small: a launch, no clock
  CHECK(at_full_clock(profile, layer("forward", 1000, 10000, 10000), {}) > whole);
}

TEST_CASE("what moves memory beside a product has no clock to follow", "[probe_clock]") {
  const std::vector<Kernel> half = {{"nvjet", 1e3, 1, 1, 1}, {"elementwise_kernel", 500, 1, 1, 2}};
  CHECK(at_full_clock(with_clocks(), layer("forward", 10000, 10000, 10000), half) ==
        Approx(1 - (1 - std::exp(-0.04)) / 2));
}

TEST_CASE("fp32, odd widths and profiles without a model of products are as measured", "[probe_clock]") {
  MeasuredKey in_fp32 = layer("forward", 10000, 10000, 10000);
  in_fp32.dtype = Dtype::fp32;
  CHECK(at_full_clock(with_clocks(), in_fp32, {}) == 1);
  CHECK(at_full_clock(with_clocks(), layer("forward", 10000, 10000, 10001), {}) == 1);
  CHECK(at_full_clock(ProfileBuilder().done(), layer("forward", 10000, 10000, 10000), {}) == 1);
}

}  // namespace
}  // namespace pdl
