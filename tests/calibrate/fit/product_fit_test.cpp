#include "calibrate/fit/product_fit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kMultiprocessors = 132;

SeenKernel seen(const std::string& name, std::int64_t resident) {
  SeenKernel kernel;
  kernel.name = name;
  kernel.resident = resident;
  kernel.blocks = 132;
  return kernel;
}

const std::string kSimt = "cutlass_80_simt_sgemm_128x64_8x5_nn_align1";
const std::string kXmma = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8_stage3_execute_kernel__5x_cublas";
const std::string kNvjet = "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NNT";

/// Products of drawn sizes by one kernel, that take what these parameters say, but for `noise`.
void add_products(ProductSamples& samples, const SeenKernel& kernel, Turned turned, const KernelTerms& parameters_us,
                  std::size_t count, double noise) {
  std::mt19937 random(static_cast<std::uint32_t>(samples.timings.size()) + 1);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<double> normal(0, 1);
  const std::size_t index = samples.kernels.size();
  samples.kernels.push_back(kernel);
  for (std::size_t i = 0; i < count; ++i) {
    const auto drawn = [&](double least, double most) {
      return std::llround(std::exp(std::log(least) + uniform(random) * std::log(most / least)));
    };
    const ProductSize size{drawn(64, 4096), 64 * drawn(8, 128), 64 * drawn(8, 128)};
    const KernelTerms terms =
        kernel_terms(tiling_of(kernel, turned), kernel.splits,
                     product_shape({"autograd", "forward", Dtype::fp32}, size), 4, kMultiprocessors);
    const double us = std::inner_product(terms.begin(), terms.end(), parameters_us.begin(), 0.0);
    samples.timings.push_back(
        {{"autograd", "forward", Dtype::fp32}, size, index, 1, {us * (1 + noise * normal(random))}});
  }
}

double worst_error(const ProductModel& model, const ProductSamples& samples) {
  double worst = 0;
  for (const ProductTiming& timing : samples.timings) {
    for (const ProductKernel& kernel : model.kernels) {
      if (kernel.tiling.accumulates) continue;
      if (kernel.tiling.name != tiling_of(samples.kernels[timing.kernel], {}).name) continue;
      const KernelTerms terms =
          kernel_terms(kernel.tiling, 1, product_shape(timing.kind, timing.size), 4, kMultiprocessors);
      const double us = std::inner_product(terms.begin(), terms.end(), kernel.parameters_us.begin(), 0.0);
      worst = std::max(worst, std::abs(us / timing.values_us.front() - 1));
    }
  }
  return worst;
}

TEST_CASE("names say tiles, captures the rest", "[product_fit]") {
  const KernelTiling simt = tiling_of(seen(kSimt, 4), {});
  CHECK(std::tuple(simt.tile_m, simt.tile_n, simt.resident, simt.grid_limit) == std::tuple(128, 64, 4, 0));
  const KernelTiling xmma = tiling_of(seen(kXmma, 2), {});
  CHECK(std::tuple(xmma.tile_m, xmma.tile_n) == std::tuple(64, 128));  // its first number is the other direction's
  CHECK(tiling_of(seen(kXmma, 2), {true, true}).tile_m == 128);
  const KernelTiling nvjet = tiling_of(seen(kNvjet, 1), {});
  CHECK(std::tuple(nvjet.tile_m, nvjet.tile_n, nvjet.grid_limit) == std::tuple(128, 256, 132));
  CHECK(nvjet.name == "nvjet_sm90_128x256_bz_coopA_?NT");
  CHECK(tiling_of(seen("nvjet_sm90_hsh_128x256_64x3_1x2_h_bz_coopA_bias_TNT", 1), {}).name == nvjet.name);
  CHECK(tiling_of(seen("nvjet_sm90_hsh_128x256_64x3_1x2_h_bz_coopA_NTN", 1), {}).name ==
        "nvjet_sm90_128x256_bz_coopA_NTN");
  CHECK(tiling_of(seen("sm90_xmma_gemm_tilesize128x128x32_execute_segment_k_on_kernel", 1), {}).shares_tiles);
  CHECK(tiling_of(seen("gemv", 1), {}).tile_m == 32);
}

TEST_CASE("parameters of made-up kernels are found again", "[product_fit]") {
  ProductSamples samples;
  const KernelTerms simt = {4, 0.2, 0.3, 48, 60, 30, 15, 3}, xmma = {6, 0.15, 0.3, 52, 66, 45, 5, 2};
  const KernelTerms nvjet = {5, 0.1, 0.3, 11, 13, 7, 3, 2};
  add_products(samples, seen(kSimt, 4), {}, simt, 200, 0);
  add_products(samples, seen(kXmma, 2), {true, true}, xmma, 200, 0);
  add_products(samples, seen(kNvjet, 1), {}, nvjet, 200, 0);
  const ProductModel model = fit_products(samples, kMultiprocessors, "a card");
  REQUIRE(model.kernels.size() == 6);  // each alone, and as if it added to its result
  CHECK(worst_error(model, samples) < 0.02);
  for (const ProductKernel& kernel : model.kernels) {
    if (kernel.tiling.accumulates) continue;
    CHECK(kernel.probes == 200);
    if (kernel.tiling.name.find("xmma") != std::string::npos) {
      CHECK(kernel.tiling.tile_m == 128);  // turned: only so do the waves fit
      CHECK(kernel.parameters_us[3] == Approx(52).epsilon(0.02));
    }
    if (kernel.tiling.name.find("nvjet") != std::string::npos)
      CHECK(kernel.parameters_us[3] == Approx(11).epsilon(0.02));
  }
}

TEST_CASE("noise averages out, and a few products that are far off hardly count", "[product_fit]") {
  ProductSamples samples;
  const KernelTerms parameters = {4, 0.2, 0.3, 48, 60, 30, 15, 3};
  add_products(samples, seen(kSimt, 4), {}, parameters, 300, 0.02);
  for (std::size_t i = 0; i < 10; ++i) samples.timings[i * 30].values_us.front() *= 3;
  const ProductModel model = fit_products(samples, kMultiprocessors, "a card");
  CHECK(model.kernels.front().parameters_us[3] == Approx(48).epsilon(0.02));
}

TEST_CASE("a kernel without products is expected to be as its family", "[product_fit]") {
  ProductSamples samples;
  // A step of depth takes as long as the tile is large.
  for (const auto& [tile, us] : {std::pair{"128x64", 40.0}, {"128x128", 80.0}, {"256x128", 160.0}, {"64x64", 20.0}}) {
    add_products(samples, seen(std::string("cutlass_80_simt_sgemm_") + tile + "_8x4_nn_align1", 1), {},
                 {4, 0.2, 0.3, us, us, us, us, 2}, 60, 0);
  }
  samples.kernels.push_back(seen("cutlass_80_simt_sgemm_256x64_8x4_nn_align1", 1));
  const ProductModel model = fit_products(samples, kMultiprocessors, "a card");
  const auto found = std::find_if(model.kernels.begin(), model.kernels.end(), [](const ProductKernel& kernel) {
    return kernel.tiling.tile_n == 64 && kernel.tiling.tile_m == 256;
  });
  REQUIRE(found != model.kernels.end());
  CHECK(found->probes == 0);
  CHECK(found->parameters_us[3] == Approx(80).epsilon(0.05));
}

TEST_CASE("a kernel that adds to its result has parameters of its own", "[product_fit]") {
  ProductSamples samples;
  const KernelTerms plain = {4, 0.2, 0.3, 48, 60, 30, 15, 3};
  add_products(samples, seen(kSimt, 4), {}, plain, 100, 0);
  const ProductKind adds{"pipeline", "backward_weight", Dtype::fp32};
  const ProductShape of_one = product_shape(adds, {256, 1024, 1024});
  for (int i = 0; i < 100; ++i) {  // the same sizes, half as long again
    ProductTiming timing = samples.timings[static_cast<std::size_t>(i)];
    const ProductShape shape = product_shape(timing.kind, timing.size);
    timing.kind = adds;
    timing.size = {shape.k, shape.m, shape.n};
    timing.values_us.front() *= 1.5;
    samples.timings.push_back(timing);
  }
  samples.answers.push_back({{"autograd", "forward", Dtype::fp32}, 1, {256}, {{1024, 1024}}, {{0}}});
  samples.answers.push_back({adds, 1, {256}, {{1024, 1024}}, {{0}}});
  const ProductModel model = fit_products(samples, kMultiprocessors, "a card");
  const double added = product_time(model, adds, {of_one.k, 1024, 1024})->ns;
  const KernelTerms terms = kernel_terms(tiling_of(samples.kernels[0], {}), 1, {1024, 1024, 256}, 4, kMultiprocessors);
  CHECK(added == Approx(1.5e3 * std::inner_product(terms.begin(), terms.end(), plain.begin(), 0.0)).epsilon(0.05));
}

TEST_CASE("a kernel that was never seen to add is as fast as without, and reads its result", "[product_fit]") {
  ProductSamples samples;
  add_products(samples, seen(kSimt, 4), {}, {4, 0.2, 0.3, 48, 60, 30, 15, 3}, 100, 0);
  const ProductKind adds{"pipeline", "backward_weight", Dtype::fp32};
  samples.answers.push_back({adds, 1, {256}, {{1024, 1024}}, {{0}}});
  samples.answers.push_back({{"autograd", "backward_weight", Dtype::fp32}, 1, {256}, {{1024, 1024}}, {{0}}});
  const ProductModel model = fit_products(samples, kMultiprocessors, "a card");
  const ProductTime added = *product_time(model, adds, {256, 1024, 1024});
  const ProductTime alone = *product_time(model, {"autograd", "backward_weight", Dtype::fp32}, {256, 1024, 1024});
  CHECK(added.kernel->probes == 0);
  CHECK(added.ns == Approx(alone.ns + 0.3e3 * 1024 * 1024 * 4 / 4e6).epsilon(0.01));
}

TEST_CASE("a pipeline's product takes the way whose kernel is fastest", "[product_fit]") {
  ProductSamples samples;
  add_products(samples, seen("cutlass_80_simt_sgemm_128x128_8x4_nn_align1", 1), {}, {4, 0.1, 0.3, 80, 80, 80, 80, 2},
               60, 0);
  add_products(samples, seen("cutlass_80_simt_sgemm_128x128_8x5_nn_align1", 1), {}, {4, 0.1, 0.3, 70, 70, 70, 70, 2},
               60, 0);
  samples.answers.push_back({{"pipeline", "forward", Dtype::fp32}, 2, {256}, {{1024, 1024}}, {{0, 1}}});
  samples.answers.push_back({{"autograd", "forward", Dtype::fp32}, 1, {256}, {{1024, 1024}}, {{0}}});
  const ProductModel model = fit_products(samples, kMultiprocessors, "a card");
  const double pipeline = product_time(model, {"pipeline", "forward", Dtype::fp32}, {256, 1024, 1024})->ns;
  const double autograd = product_time(model, {"autograd", "forward", Dtype::fp32}, {256, 1024, 1024})->ns;
  CHECK(autograd - pipeline == Approx(1.024 * 10 * 1e3).epsilon(0.05));
}

TEST_CASE("the same products in any order give the same model", "[product_fit]") {
  ProductSamples samples;
  add_products(samples, seen(kSimt, 4), {}, {4, 0.2, 0.3, 48, 60, 30, 15, 3}, 50, 0.01);
  ProductSamples shuffled = samples;
  std::shuffle(shuffled.timings.begin(), shuffled.timings.end(), std::mt19937(3));
  const ProductModel a = fit_products(samples, kMultiprocessors, "a card");
  const ProductModel b = fit_products(shuffled, kMultiprocessors, "a card");
  CHECK(a.kernels.front().parameters_us == b.kernels.front().parameters_us);
}

TEST_CASE("samples of products survive their file, and parts of a calibration are put together", "[product_fit]") {
  ProductSamples one;
  add_products(one, seen(kSimt, 4), {}, {4, 0.2, 0.3, 48, 60, 30, 15, 3}, 3, 0);
  one.library = "cuBLAS 1.2.3";
  one.asked_by = "stream capture";
  one.answers.push_back({{"autograd", "forward", Dtype::fp32}, 2, {8, 16}, {{512, 512}}, {{0, std::nullopt, 0, 0}}});
  ProductSamples two = one;
  two.kernels.front().name = kXmma;
  two.kernels.push_back(one.kernels.front());
  two.timings.back().kernel = 1;
  two.answers.front().kind.operation = "backward_input";
  ProductSamples all;
  append(all, one);
  append(all, two);
  REQUIRE(all.kernels.size() == 2);
  CHECK(all.timings.size() == 6);
  CHECK(all.timings.back().kernel == 0);
  CHECK(all.answers[1].kernels[0][0] == 1);
  const nlohmann::json json = to_json(all);
  CHECK(nlohmann::json(to_json(product_samples_from_json(JsonPlace(json, "s.json")))) == json);
  nlohmann::json broken = json;
  broken["answers"][0]["shapes"][0]["kernels"] = "AAAAAA";
  CHECK_THROWS_AS(product_samples_from_json(JsonPlace(broken, "s.json")), InputError);
  for (const nlohmann::json& cluster : {nlohmann::json::array(), nlohmann::json{1}, nlohmann::json{1, 1, 7}}) {
    broken = json;
    broken["kernels"][0]["cluster"] = cluster;
    CHECK_THROWS_AS(product_samples_from_json(JsonPlace(broken, "s.json")), InputError);
  }
  for (const nlohmann::json& rows : {nlohmann::json::array(), nlohmann::json{16, 8}, nlohmann::json{8, 8}}) {
    broken = json;
    broken["answers"][0]["rows"] = rows;
    CHECK_THROWS_WITH(product_samples_from_json(JsonPlace(broken, "s.json")), ContainsSubstring("ascending"));
  }
  broken = json;
  broken["answers"].push_back(broken["answers"][0]);
  CHECK_THROWS_WITH(product_samples_from_json(JsonPlace(broken, "s.json")), ContainsSubstring("each kind"));
  broken = json;
  broken["timings"][0]["sizes"][0][3] = 2;
  CHECK_THROWS_AS(product_samples_from_json(JsonPlace(broken, "s.json")), InputError);
}

}  // namespace
}  // namespace pdl
