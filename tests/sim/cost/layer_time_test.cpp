#include "sim/cost/layer_time.hpp"

#include <cmath>

#include "sim/io/error.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

MeasuredKey forward(std::int64_t in, std::int64_t out, std::int64_t rows) {
  return ProfileBuilder::layer_key("forward", in, out, rows);
}

/// Forward layers of width 1024 to 4096 at 64 to 1024 rows, all at the same rate: 1 us for 2^24 multiplications.
CostProfile even_profile() {
  ProfileBuilder b;
  for (const std::int64_t dim : {1024, 2048, 4096}) {
    ProfileBuilder::Points points;
    for (const std::int64_t rows : {64, 256, 1024}) {
      points.emplace_back(rows, std::ldexp(static_cast<double>(rows * dim * dim), -24));
    }
    b.layer("forward", dim, points);
  }
  return b.done();
}

double us(LayerTimes& times, const MeasuredKey& key) {
  const std::vector<OperationTime>& parts = times.at(key);
  double ns = 0;
  for (const OperationTime& part : parts) ns += part.device_ns;
  return ns / 1e3;
}

TEST_CASE("measured layers are used as they are", "[layer_time]") {
  ProfileBuilder b;
  b.layer("forward", 1024, {{64, 7}, {128, 11}});
  const CostProfile profile = b.done();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, forward(1024, 1024, 64)) == 7);
  CHECK(us(times, forward(1024, 1024, 128)) == 11);
  CHECK(notices.texts().empty());
}

TEST_CASE("between measured rows and widths: the power law through them", "[layer_time]") {
  const CostProfile profile = even_profile();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, forward(2048, 2048, 128)) == Approx(128.0 / 4));
  CHECK(us(times, forward(3072, 3072, 256)) == Approx(256 * 9.0 / 16));
  CHECK(us(times, forward(3072, 3072, 100)) == Approx(100 * 9.0 / 16));
  CHECK(notices.texts().empty());
}

TEST_CASE("between widths, log(time) is straight in log(width) at the same rows", "[layer_time]") {
  ProfileBuilder b;
  b.layer("forward", 1000, {{10, 5}, {20, 6}});
  b.layer("forward", 4000, {{10, 45}, {20, 96}});
  const CostProfile profile = b.done();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, forward(2000, 2000, 10)) == Approx(15));  // sqrt(5 * 45)
  CHECK(us(times, forward(2000, 2000, 20)) == Approx(24));  // sqrt(6 * 96)
}

TEST_CASE("layers that are not square count by sqrt(in * out), a very different shape is said", "[layer_time]") {
  const CostProfile profile = even_profile();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, forward(1536, 2048, 256)) == Approx(256 * 3.0 / 16));
  CHECK(notices.texts().empty());
  CHECK(us(times, forward(1024, 16384, 256)) == Approx(256.0));
  CHECK(notices.texts() == std::vector<std::string>{"layers of 1024x16384 priced as if shaped like 4096"});
}

TEST_CASE("of two measured shapes of one size, the one with the proportions of the layer", "[layer_time]") {
  ProfileBuilder b;
  b.add(ProfileBuilder::layer_key("forward", 512, 2048), {{64, 30}});
  b.add(ProfileBuilder::layer_key("forward", 2048, 512), {{64, 50}});
  b.layer("forward", 1024, {{64, 40}});
  const CostProfile profile = b.done();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, forward(512, 2048, 64)) == 30);
  CHECK(us(times, forward(2048, 512, 64)) == 50);
  CHECK(us(times, forward(256, 4096, 64)) == 30);
  CHECK(us(times, forward(4096, 256, 64)) == 50);
}

TEST_CASE("beyond the measured widths: the FLOP/s of the nearest, and one warning with the farthest", "[layer_time]") {
  const CostProfile profile = even_profile();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, forward(8192, 8192, 256)) == Approx(4 * 256));
  CHECK(us(times, forward(16384, 16384, 256)) == Approx(16 * 256));
  CHECK(notices.texts() == std::vector<std::string>{"extrapolated: dim 16384 beyond 1024..4096 measured"});
}

TEST_CASE("beyond the measured rows: the same, above and below", "[layer_time]") {
  const CostProfile profile = even_profile();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, forward(1024, 1024, 4096)) == Approx(256));
  CHECK(notices.texts() == std::vector<std::string>{"extrapolated: rows 4096 beyond 64..1024 measured"});
}

TEST_CASE("small layers: never faster than the smallest time measured", "[layer_time]") {
  ProfileBuilder b;
  b.layer("forward", 1024, {{64, 6}, {128, 6}, {256, 12}});
  const CostProfile profile = b.done();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, forward(1024, 1024, 1)) == 6);
  CHECK(us(times, forward(16, 16, 64)) == 6);
}

TEST_CASE("few rows of a wide layer: the weights still have to be read", "[layer_time]") {
  ProfileBuilder b;
  // At 32 rows the layer moves its 4 * 8192^2 bytes of weights at 3 TB/s, the best rate of the profile.
  const double weights_us = 4.0 * 8192 * 8192 / 3e6;
  b.layer("forward", 8192, {{32, weights_us * (1 + 2.0 * 32 / 8192)}, {1024, 2700}});
  b.layer("forward", 512, {{32, 5}, {1024, 16}});
  const CostProfile profile = b.done();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, forward(8192, 8192, 1)) == Approx(weights_us).epsilon(0.001));
  CHECK(us(times, forward(16384, 16384, 32)) == Approx(4 * weights_us).epsilon(0.01));
}

TEST_CASE("extrapolation starts where the measurements end: no jump", "[layer_time]") {
  ProfileBuilder b;
  b.layer("forward", 1024, {{64, 8}, {1024, 70}});
  b.layer("forward", 4096, {{64, 90}, {1024, 900}});
  const CostProfile profile = b.done();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, forward(4096, 4096, 1025)) == Approx(900).epsilon(0.002));
  CHECK(us(times, forward(4096, 4096, 63)) == Approx(90).epsilon(0.02));
  CHECK(us(times, forward(4097, 4097, 1024)) == Approx(900).epsilon(0.002));
  CHECK(us(times, forward(1023, 1023, 1024)) == Approx(70).epsilon(0.02));
}

TEST_CASE("huge layers: finite, no overflow", "[layer_time]") {
  const CostProfile profile = even_profile();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  const double time = us(times, forward(1LL << 31, 1LL << 31, 1LL << 20));
  CHECK(std::isfinite(time));
  CHECK(time > 1e12);
}

TEST_CASE("operations that were not measured are taken from the nearest that were, and it is said", "[layer_time]") {
  ProfileBuilder b;
  b.layer("backward_input", 1024, {{64, 20}});
  b.layer("backward_weight", 1024, {{64, 30}});
  const CostProfile profile = b.done();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  MeasuredKey backward = ProfileBuilder::layer_key("backward", 1024, 1024, 64);
  CHECK(us(times, backward) == 50);
  backward.input_gradient = false;
  CHECK(us(times, backward) == 30);
  backward.accumulate = true;
  CHECK(us(times, backward) == 30);
  CHECK(notices.texts() ==
        std::vector<std::string>{
            "not in profile test: layer pipeline backward fp32 and 2 more of this kind; layer pipeline backward_input "
            "fp32 and layer pipeline backward_weight fp32 used instead"});
}

TEST_CASE("the other implementation stands in for one that was not measured", "[layer_time]") {
  ProfileBuilder b;
  b.layer("forward", 1024, {{64, 20}});
  const CostProfile profile = b.done();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  MeasuredKey autograd = forward(1024, 1024, 64);
  autograd.implementation = "autograd";
  CHECK(us(times, autograd) == 20);
  CHECK(notices.texts().size() == 1);
}

TEST_CASE("an operation of which nothing like it was measured is refused", "[layer_time]") {
  ProfileBuilder b;
  b.layer("forward", 1024, {{64, 20}});
  const CostProfile profile = b.done();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK_THROWS_WITH(times.at(ProfileBuilder::layer_key("backward", 1024, 1024, 64)),
                    ContainsSubstring("profile test") && ContainsSubstring("backward"));
}

MeasuredKey norm(std::int64_t features, std::int64_t rows) {
  MeasuredKey key = ProfileBuilder::layer_key("forward", 1, 1, rows);
  key.layer = layer_of_width(*find_layer_kind("layer_norm"), features);
  return key;
}

TEST_CASE("a row-wise kind is measured over rows x width: all its shapes are one curve", "[layer_time]") {
  ProfileBuilder b;
  b.layer("forward", 1024, {{64, 700}});          // of another kind: prices nothing here
  b.add(norm(100, 0), {{10, 5}, {100, 8}});       // 1,000 and 10,000 numbers
  b.add(norm(1000, 0), {{10, 12}, {1000, 800}});  // 10,000 and 1,000,000 numbers
  const CostProfile profile = b.done();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, norm(100, 100)) == 8);  // as measured, though another shape of as many numbers took 12
  CHECK(notices.texts().empty());
  CHECK(us(times, norm(50, 20)) == 5);                                // 1,000 numbers
  CHECK(us(times, norm(50, 200)) == 10);                              // 10,000: the mean of both
  CHECK(us(times, norm(500, 200)) == Approx(std::sqrt(10 * 800.0)));  // 100,000, half way in logarithms
  const auto not_measured = [](const std::string& width) {
    return "not in profile test: layer_norm " + width +
           "; priced by rows x width as the widths measured, which may be far off where rows are many and narrow";
  };
  CHECK(notices.texts() == std::vector<std::string>{not_measured("50"), not_measured("500")});
  CHECK(us(times, norm(1000, 4000)) == Approx(4 * 800));  // beyond: by bytes
  CHECK(us(times, norm(10, 10)) == 5);                    // no less than the smallest
  const std::string text = "extrapolated: rows x width of layer_norm ", range = " beyond 1000..1000000 measured";
  const std::vector<std::string> said = notices.texts();
  for (const std::string size : {"100", "4000000"})
    CHECK(std::count(said.begin(), said.end(), text + size + range) == 1);
}

TEST_CASE("a kind of layer that a profile has not measured is refused, and with TF32 it is that of fp32",
          "[layer_time]") {
  ProfileBuilder b;
  b.layer("forward", 1024, {{64, 20}});
  const CostProfile without = b.done();
  Notices notices;
  LayerTimes times(without, Dtype::fp32, notices);
  CHECK_THROWS_WITH(times.at(norm(8, 8)),
                    "profile test: found no layer of kind layer_norm, expected a profile that has measured this kind: "
                    "pdl-calibrate makes one, of samples that lack what transformers are made of with --from SAMPLES "
                    "--transformers");
  b.add(norm(8, 0), {{8, 3}});
  const CostProfile with = b.done();
  LayerTimes fp32(with, Dtype::fp32, notices);
  MeasuredKey key = norm(8, 8);
  key.dtype = Dtype::tf32;
  CHECK(us(fp32, key) == 3);
}

TEST_CASE("a data type that was not measured is refused with those that were", "[layer_time]") {
  ProfileBuilder b;
  b.layer("forward", 1024, {{64, 20}});
  const CostProfile profile = b.done();
  Notices notices;
  CHECK_THROWS_WITH(LayerTimes(profile, Dtype::amp_fp16, notices),
                    "--dtype: found amp-fp16, expected what profile test has layers of: fp32");
}

/// One kernel, tiles of 100 x 100 on 10 multiprocessors: 1 us a wave and thousand of depth, nothing else.
ProductModel waves_of_ten(const char* implementation = "pipeline") {
  ProductModel model;
  model.multiprocessors = 10;
  KernelTiling tiling;
  tiling.name = "sgemm_100x100";
  tiling.tile_m = tiling.tile_n = 100;
  model.kernels = {{tiling, {0, 0, 0, 1, 0, 0, 0, 0}, 10}};
  model.choices = {{{implementation, "forward", Dtype::fp32}, {100}, {{1000, 1000}}, {{{0, 1}}}}};
  return model;
}

TEST_CASE("between measured widths: waves of the kernel, times how much layers differ from it", "[layer_time]") {
  //   width 1000, 100 rows   10 tiles, 1 wave  of depth 1000: 1 us; measured 2
  //   width 1100             11 tiles, 2 waves of depth 1100: 2.2 us; so 4.4
  //   width 2000             20 tiles, 2 waves of depth 2000: 4 us; measured 8
  ProfileBuilder b;
  b.layer("forward", 1000, {{100, 2}});
  b.layer("forward", 2000, {{100, 8}});
  CostProfile profile = b.done();
  profile.products = waves_of_ten();
  profile.layer_errors = {{"pipeline", Dtype::fp32, /*asked=*/true, 0, 0.09, 20},
                          {"pipeline", Dtype::fp32, /*asked=*/true, 2'000, 0.04, 20},
                          {"pipeline", Dtype::fp32, /*asked=*/true, 1e6, 0.01, 20}};
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  CHECK(us(times, forward(1100, 1100, 100)) == Approx(4.4));
  CHECK(us(times, forward(2000, 2000, 100)) == 8);  // as measured
  const OperationTime measured = times.at(forward(1000, 1000, 100)).front();
  CHECK(measured.probed);
  CHECK(measured.half_width == Approx(0.003));  // no spread: the least that is believed
  const OperationTime between = times.at(forward(1100, 1100, 100)).front();
  CHECK_FALSE(between.probed);
  // The library was not asked for 1100: its bar widens, and by a tenth for each doubling beyond the widest.
  CHECK(between.half_width == Approx(0.15 + 0.1 * std::log2(1.1)));
  CHECK(times.at(forward(1040, 1000, 100)).front().half_width == Approx(0.04 + 0.1 * std::log2(1.04)));
  REQUIRE(notices.texts().size() == 1);
  CHECK_THAT(notices.texts().front(), ContainsSubstring("1.1 times the largest width"));
}

TEST_CASE("the share by which layers differ from the model counts by nearness", "[layer_time]") {
  ProfileBuilder b;
  b.layer("forward", 1000, {{100, 1}});   // as the model
  b.layer("forward", 4000, {{100, 32}});  // twice the model: 40 tiles, 4 waves of depth 4000
  CostProfile profile = b.done();
  profile.products = waves_of_ten();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  // In the middle, in logarithms, the mean: sqrt(2) times 2 waves of depth 2000.
  CHECK(us(times, forward(2000, 2000, 100)) == Approx(4 * std::sqrt(2.0)));
  CHECK(us(times, forward(1040, 1000, 100)) == Approx(1.04 * 1).epsilon(0.01));
}

TEST_CASE("products differ from their model by one share, what moves memory beside them by another", "[layer_time]") {
  //   measured   1000 x 1000   1 wave of depth 1000, 1 us by the model: took 2     ReLU: 4 us
  //   asked for  4000 x 1000   1 wave of depth 4000, 4 us: so 8                    ReLU: of as many numbers, so 4 us
  ProfileBuilder b;
  MeasuredKey key = ProfileBuilder::layer_key("forward", 1000, 1000);
  key.implementation = "autograd";
  b.add(key, {{100, 6}}).points.front().kernels = {{"sgemm", 2e3, 10, 1, 1}, {"elementwise_kernel", 4e3, 10, 1, 1}};
  CostProfile profile = b.done();
  profile.products = waves_of_ten("autograd");
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  key.layer = linear_relu(4000, 1000);
  key.size = 100;
  const OperationTime time = times.at(key).front();
  CHECK(time.device_ns == Approx(12e3));
  REQUIRE(time.kernels->size() == 2);
  CHECK(time.kernels->front().time_ns == Approx(8e3));
  CHECK(time.kernels->back().time_ns == Approx(4e3));
}

TEST_CASE("what a measurement takes over its kernels are gaps before them, what it takes less is a higher clock",
          "[layer_time]") {
  //   measured in   recorded: product, ReLU   so the product took   twice as deep
  //        10 us              2, 4 us         4 (a gap of 2 each)   8 + 6
  //         5                 2, 4            1                     2 + 4
  for (const auto& [measured_us, expected_us] : {std::pair{10.0, 14.0}, {5.0, 6.0}}) {
    ProfileBuilder b;
    MeasuredKey key = ProfileBuilder::layer_key("forward", 1000, 1000);
    key.implementation = "autograd";
    b.add(key, {{100, measured_us}}).points.front().kernels = {{"sgemm", 2e3, 10, 1, 1},
                                                               {"elementwise_kernel", 4e3, 10, 1, 1}};
    CostProfile profile = b.done();
    profile.products = waves_of_ten("autograd");
    Notices notices;
    LayerTimes times(profile, Dtype::fp32, notices);
    key.layer = linear_relu(2000, 1000);
    key.size = 100;
    CHECK(times.at(key).front().device_ns == Approx(expected_us * 1e3));
  }
}

TEST_CASE("products of odd widths take as long as their tiles multiply, whatever the kernels of others",
          "[layer_time]") {
  //   measured   960 x 1001, 128 rows: 10 us; 1001 is no multiple of 4
  //   asked for  1984 x 1001, 256 rows: with 64 for a block's start and end twice as deep, and twice the tiles
  //              1984 x 1025: 9 tiles of 128 in place of 8
  ProfileBuilder b;
  MeasuredKey key = ProfileBuilder::layer_key("forward", 1024, 1024);
  key.implementation = "autograd";
  key.dtype = Dtype::tf32;
  b.add(key, {{128, 1}});
  key.layer = linear_no_bias(960, 1001);
  b.add(key, {{128, 10}});
  CostProfile profile = b.done();
  profile.products = waves_of_ten();
  Notices notices;
  LayerTimes times(profile, Dtype::tf32, notices);
  key.size = 256;
  key.layer = linear_no_bias(1984, 1001);
  CHECK(times.at(key).front().device_ns == Approx(40e3));
  key.layer = linear_no_bias(1984, 1025);
  CHECK(times.at(key).front().device_ns == Approx(45e3));
}

TEST_CASE("without a model of its products a layer is on the line, and its bar is wide", "[layer_time]") {
  const CostProfile profile = even_profile();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  const OperationTime between = times.at(forward(3072, 3072, 256)).front();
  CHECK_FALSE(between.probed);
  CHECK(between.half_width == Approx(0.15));
}

TEST_CASE("a linear without a bias: a linear_relu without the kernels of its ReLU and of its bias", "[layer_time]") {
  ProfileBuilder b;
  MeasuredKey key = ProfileBuilder::layer_key("backward", 64, 64);
  key.implementation = "autograd";
  Curve& curve = b.add(key, {{32, 100}});
  // ReLU's backward, two products, the bias's gradient: 10, 40, 40 and 10 us.
  curve.points.front().kernels = {
      {"vectorized_elementwise_kernel", 10e3, 1, 1, 1}, {"sm90_gemm", 40e3, 1, 1, 2}, {"reduce_kernel", 10e3, 1, 1, 1}};
  const CostProfile profile = b.done();
  Notices notices;
  LayerTimes times(profile, Dtype::fp32, notices);
  key.size = 32;
  key.layer = linear(64, 64);
  CHECK(times.at(key).front().device_ns == Approx(90e3));
  key.layer = linear_no_bias(64, 64);
  CHECK(times.at(key).front().device_ns == Approx(80e3));
  CHECK(times.at(key).front().kernels->size() == 1);
}

}  // namespace
}  // namespace pdl
