#include "sim/cost/product_model.hpp"

#include <cmath>
#include <numeric>

#include "sim/cost/product_json.hpp"
#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kMultiprocessors = 10;
constexpr std::int64_t kFp32 = 4;

KernelTiling tiles_of_100(std::int64_t resident) {
  KernelTiling tiling;
  tiling.name = "sgemm_100x100";
  tiling.tile_m = tiling.tile_n = 100;
  tiling.resident = resident;
  return tiling;
}

/// A result of so many tiles in a row, a depth of 1000.
ProductShape tiles(std::int64_t count) {
  return {100 * count, 100, 1000};
}

TEST_CASE("products of a layer: result and depth", "[product_model]") {
  const ProductSize size{64, 300, 500};  // rows, in, out
  const ProductShape forward = product_shape({"autograd", "forward", Dtype::fp32}, size);
  CHECK(std::tuple(forward.m, forward.n, forward.k) == std::tuple(500, 64, 300));
  const ProductShape input = product_shape({"autograd", "backward_input", Dtype::fp32}, size);
  CHECK(std::tuple(input.m, input.n, input.k) == std::tuple(300, 64, 500));
  const ProductShape weight = product_shape({"autograd", "backward_weight", Dtype::fp32}, size);
  CHECK(std::tuple(weight.m, weight.n, weight.k) == std::tuple(300, 500, 64));
}

TEST_CASE("one block a multiprocessor: a last wave counts whole", "[product_model]") {
  //   10 tiles  |##########|                          1 wave
  //   11 tiles  |##########|#         |               2 waves
  //   25 tiles  |##########|##########|#####     |    3 waves
  for (const auto& [count, waves] : {std::pair{1, 1}, {10, 1}, {11, 2}, {25, 3}}) {
    const KernelTerms terms = kernel_terms(tiles_of_100(1), 1, tiles(count), kFp32, kMultiprocessors);
    CHECK(terms[3] == waves);  // thousands of depth
    CHECK(terms[7] == waves);
    CHECK(terms[5] + terms[6] == 0);
  }
}

TEST_CASE("two blocks a multiprocessor: few blocks, full waves, and what is left", "[product_model]") {
  const auto terms = [](std::int64_t count) {
    return kernel_terms(tiles_of_100(2), 1, tiles(count), kFp32, kMultiprocessors);
  };
  // 10 tiles: one on each multiprocessor, each alone.
  CHECK(terms(10)[3] == 0);
  CHECK(terms(10)[4] == 1);
  // 20 tiles: the fullest have two. Alone counts an eighth of it.
  CHECK(terms(20)[3] == 2);
  CHECK(terms(20)[4] == 0);
  CHECK(terms(15)[3] == Approx(2 * 7.0 / 8));
  CHECK(terms(15)[4] == Approx(2 * 1.0 / 8));
  // 25 tiles: a full wave, then a last one that is a quarter full.
  CHECK(terms(25)[3] == 2);
  CHECK(terms(25)[5] == 2);
  CHECK(terms(25)[6] == Approx(2 * 0.25));
  CHECK(terms(25)[7] == 2);
}

TEST_CASE("splits of the depth are more blocks of less depth, and parts to add", "[product_model]") {
  const KernelTerms terms = kernel_terms(tiles_of_100(1), 5, tiles(2), kFp32, kMultiprocessors);
  CHECK(terms[3] == Approx(0.2));                        // 10 blocks, one wave, a fifth of the depth
  CHECK(terms[2] == Approx(4.0 * 200 * 100 * 5 / 4e6));  // five parts
  CHECK(launched_blocks(tiles_of_100(1), 5, tiles(2)) == 10);
}

TEST_CASE("blocks that work through all tiles: as many as the grid has, clusters padded", "[product_model]") {
  KernelTiling tiling = tiles_of_100(1);
  tiling.grid_limit = 8;
  CHECK(launched_blocks(tiling, 1, tiles(3)) == 3);
  CHECK(launched_blocks(tiling, 1, tiles(20)) == 8);
  const KernelTerms terms = kernel_terms(tiling, 1, tiles(20), kFp32, kMultiprocessors);
  CHECK(terms[3] == 2);  // of 8, and a last one that is half full
  CHECK(terms[5] == 1);
  CHECK(terms[6] == Approx(0.5));
  CHECK(terms[7] == 3);
  tiling.cluster_m = 2;
  CHECK(kernel_terms(tiling, 1, tiles(7), kFp32, kMultiprocessors)[3] == 1);
  CHECK(launched_blocks(tiling, 1, tiles(7)) == 8);
  tiling.shares_tiles = true;
  CHECK(kernel_terms(tiling, 1, tiles(20), kFp32, kMultiprocessors)[3] == Approx(2.5));  // evenly
}

// 128 x 128 loads 256 numbers for 16,384 products of a step, 1.6 times what the caches give; in clusters of two 192.
TEST_CASE("blocks wait for the caches where few share what they load, and some have little to do", "[product_model]") {
  KernelTiling tiling = tiles_of_100(1);
  tiling.tile_m = tiling.tile_n = 128;
  tiling.grid_limit = 132;
  const auto waits = [&](std::int64_t m, std::int64_t n) {
    return kernel_terms(tiling, 1, {m, n, 1000}, kFp32, 132)[4];
  };
  const double beyond = 256.0 / 16384 / 0.0098 - 1;
  CHECK(waits(44 * 128, 3 * 128) == 0);                    // all in step
  CHECK(waits(44 * 128, 2 * 128 + 16) == Approx(beyond));  // the last column is nearly empty
  CHECK(waits(44 * 128, 2 * 128 + 70) == Approx(beyond * (58.0 / 128 - 0.1) / 0.7));
  CHECK(waits(88 * 128, 2 * 128 + 16) == Approx(2 * beyond));  // two waves
  tiling.cluster_m = 2;
  CHECK(waits(44 * 128, 2 * 128 + 16) == Approx(192.0 / 16384 / 0.0098 - 1));
  tiling.cluster_m = 4;
  CHECK(waits(44 * 128, 2 * 128 + 16) == 0);
}

TEST_CASE("blocks that share tiles are never in step, and nearly as many tiles as blocks are a wave more",
          "[product_model]") {
  KernelTiling tiling = tiles_of_100(1);
  tiling.grid_limit = 10;
  tiling.shares_tiles = true;
  const auto terms = [&](std::int64_t count) { return kernel_terms(tiling, 1, tiles(count), kFp32, kMultiprocessors); };
  CHECK(terms(12)[4] == Approx(1.2 * (0.02 / 0.0098 - 1)));
  CHECK(terms(9)[5] == 1);
  CHECK(terms(10)[5] == 1);
  CHECK(terms(19)[5] == 2);
  CHECK(terms(12)[5] == 0);
  CHECK(terms(29)[5] == 0);
}

ProductModel model_of_two() {
  ProductModel model;
  model.library = "cuBLAS 1.2.3";
  model.asked_by = "stream capture";
  model.card = "a card";
  model.multiprocessors = kMultiprocessors;
  KernelTiling small = tiles_of_100(1);
  small.name = "small";
  small.tile_m = small.tile_n = 50;
  model.kernels = {{tiles_of_100(1), {3, 0, 0, 10, 0, 0, 0, 1}, 7}, {small, {2, 0, 0, 4, 0, 0, 0, 1}, 0}};
  model.choices = {{{"autograd", "forward", Dtype::fp32},
                    {10, 1000},
                    {{100, 100}, {1000, 1000}},
                    {{{1, 1}, {1, 1}}, {{1, 1}, {0, 1}}}}};
  return model;
}

// Six shapes around; only one of the ten has the fast kernel.
TEST_CASE("where the lattice has not the shape, the fastest kernel of the nearest six", "[product_model]") {
  const ProductKind kind{"autograd", "forward", Dtype::fp32};
  ProductModel model = model_of_two();
  model.kernels[1].parameters_us[3] = 0.1;  // fast
  const auto takes_fast = [&](std::int64_t width_of_fast, std::int64_t width) {
    ProductChoices& choices = model.choices.front();
    choices.rows = {1000};
    choices.shapes.clear();
    choices.of_shape.clear();
    for (std::int64_t w = 1000; w <= 1900; w += 100) {
      choices.shapes.emplace_back(w, w);
      choices.of_shape.push_back({{w == width_of_fast ? std::size_t{1} : std::size_t{0}, 1}});
    }
    return product_time(model, kind, {1000, width, width})->kernel == &model.kernels[1];
  };
  CHECK(takes_fast(1000, 1040));
  CHECK(takes_fast(1500, 1040));
  CHECK_FALSE(takes_fast(1600, 1040));  // the seventh
  CHECK_FALSE(takes_fast(1600, 1500));  // the very shape is asked alone
}

TEST_CASE("between two rows: the kernel of the row above, and under AMP the fastest of two below and two above",
          "[product_model]") {
  ProductModel model = model_of_two();
  model.kernels[1].parameters_us[3] = 0.1;  // fast
  model.choices.front().shapes = {{1000, 1000}};
  const auto kernel = [&](const ProductKind& kind, std::vector<std::int64_t> rows, std::vector<KernelChoice> kernels) {
    model.choices.front().kind = kind;
    model.choices.front().rows = std::move(rows);
    model.choices.front().of_shape = {std::move(kernels)};
    return product_time(model, kind, {152, 1000, 1000})->kernel - model.kernels.data();
  };
  const KernelChoice slow{0, 1}, fast{1, 1};
  for (const ProductKind& kind : {ProductKind{"autograd", "forward", Dtype::fp32},
                                  {"pipeline", "forward", Dtype::fp32},
                                  {"autograd", "forward", Dtype::tf32}}) {
    CHECK(kernel(kind, {100, 200}, {fast, slow}) == 0);
    CHECK(kernel(kind, {100, 200}, {slow, fast}) == 1);
  }
  const ProductKind amp{"autograd", "forward", Dtype::amp_fp16};
  CHECK(kernel(amp, {80, 96, 160, 192, 200}, {fast, slow, slow, slow, slow}) == 1);
  CHECK(kernel(amp, {80, 96, 160, 192, 200}, {slow, slow, slow, fast, slow}) == 1);
  CHECK(kernel(amp, {80, 96, 160, 192, 200}, {slow, slow, slow, slow, fast}) == 0);  // the third above
  CHECK(kernel(amp, {64, 80, 152, 160}, {fast, fast, slow, fast}) == 0);             // this very row
}

TEST_CASE("a lattice of rows that are no multiple of 8 begins at 7, and is asked of each up to the next one",
          "[product_model]") {
  const ProductKind kind{"autograd", "forward", Dtype::amp_bf16};
  ProductModel model = model_of_two();
  model.choices = {{kind, {8, 16}, {{1000, 1000}}, {{{0, 1}, {0, 1}}}},
                   {kind, {7, 15}, {{1000, 1000}}, {{{0, 1}, {1, 1}}}}};
  const auto kernel = [&](std::int64_t rows) {
    return product_time(model, kind, {rows, 1000, 1000})->kernel - model.kernels.data();
  };
  CHECK(kernel(7) == 0);
  CHECK(kernel(8) == 0);
  CHECK(kernel(9) == 1);
  CHECK(kernel(15) == 1);
  CHECK(kernel(16) == 0);
}

TEST_CASE("the nearest size of the lattice says the kernel", "[product_model]") {
  const ProductModel model = model_of_two();
  const ProductKind kind{"autograd", "forward", Dtype::fp32};
  // 1000 x 1000 over 1000: 100 tiles of 100, 10 waves of 10 us and 1, after 3.
  const ProductTime exact = *product_time(model, kind, {1000, 1000, 1000});
  CHECK(exact.ns == Approx((3 + 10 * 11) * 1e3));
  CHECK(exact.blocks == 100);
  CHECK(exact.covered);
  // The fewest rows: the other kernel, 20 x 1 tiles of 50, two waves.
  CHECK(product_time(model, kind, {10, 1000, 1000})->ns == Approx((2 + 2 * 5) * 1e3));
  CHECK(product_time(model, kind, {900, 960, 1000})->kernel == &model.kernels[0]);
  CHECK_FALSE(product_time(model, kind, {1000, 500, 500})->covered);
  CHECK_FALSE(product_time(model, kind, {2000, 1000, 1000})->covered);
  CHECK_FALSE(product_time(model, {"pipeline", "forward", Dtype::fp32}, {1000, 1000, 1000}));
  CHECK(product_time(model, kind, {1000, 1000, 1000})->octaves_beyond == 0);
  CHECK(product_time(model, kind, {1000, 1000, 4000})->octaves_beyond == 2);
  CHECK(product_time(model, kind, {8000, 1000, 1000})->octaves_beyond == 3);
  CHECK(product_time(model, kind, {4, 1000, 1000})->octaves_beyond == 2);  // none of fewer than 16 rows is timed
}

// Multiples of 8: kernel 1, between them kernel 0.
TEST_CASE("rows that are no multiple of 8 have a lattice of their own where there is one", "[product_model]") {
  const ProductKind kind{"autograd", "forward", Dtype::amp_bf16};
  ProductModel model = model_of_two();
  model.choices = {{kind, {8, 1024}, {{1000, 1000}}, {{{1, 1}, {1, 1}}}}};
  const auto kernel = [&](std::int64_t rows) { return product_time(model, kind, {rows, 1000, 1000})->kernel; };
  CHECK(kernel(1001) == &model.kernels[1]);
  model.choices.push_back({kind, {9, 1025}, {{1000, 1000}}, {{{0, 1}, {0, 1}}}});
  CHECK(kernel(1000) == &model.kernels[1]);
  CHECK(kernel(1001) == &model.kernels[0]);
  CHECK(kernel(1004) == &model.kernels[0]);
  // Whatever their order in a file.
  nlohmann::json json = to_json(model);
  std::swap(json["choices"][0], json["choices"][1]);
  CHECK(to_json(product_model_from_json(JsonPlace(json, "p.json"))) == to_json(model));
}

TEST_CASE("kernels that differ in their grids alone are one entry of a file, in the same order", "[product_model]") {
  ProductModel model = model_of_two();
  ProductKernel other = model.kernels[0];
  other.tiling.cluster_m = 2;
  other.tiling.grid_limit = 8;
  model.kernels.insert(model.kernels.begin() + 1, other);
  model.choices.front().of_shape = {{{2, 1}, {2, 1}}, {{1, 1}, {0, 1}}};
  const nlohmann::json json = to_json(model);
  CHECK(json["kernels"].size() == 2);
  CHECK(json["kernels"][0]["grids"] == nlohmann::json{{1, 1, 0}, {2, 1, 8}});
  const ProductModel read = product_model_from_json(JsonPlace(json, "p.json"));
  CHECK(nlohmann::json(to_json(read)) == json);
  CHECK(read.kernels[1].tiling == other.tiling);
  nlohmann::json old = json;
  old["kernels"][0].erase("grids");
  CHECK_THROWS_WITH(product_model_from_json(JsonPlace(old, "p.json")), ContainsSubstring("pdl-calibrate --from"));
}

TEST_CASE("a model of products survives its file", "[product_model]") {
  const ProductModel model = model_of_two();
  const nlohmann::json json = to_json(model);
  const ProductModel read = product_model_from_json(JsonPlace(json, "p.json"));
  CHECK(nlohmann::json(to_json(read)) == json);
  CHECK(product_time(read, {"autograd", "forward", Dtype::fp32}, {1000, 1000, 1000})->blocks == 100);
}

TEST_CASE("a broken model of products is refused with its place", "[product_model]") {
  const auto refused = [](auto&& change) {
    nlohmann::json json = to_json(model_of_two());
    change(json);
    try {
      product_model_from_json(JsonPlace(json, "p.json"));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused([](auto& json) { json["kernels"][0]["parameters"] = {1, 2}; }).find("8 numbers") != std::string::npos);
  CHECK(refused([](auto& json) { json["kernels"][0]["tile"] = {0, 100}; }).find("p.json") == 0);
  CHECK(refused([](auto& json) { json["choices"][0]["shapes"][0][2] = "AAA"; }).find("letters of 2 of") !=
        std::string::npos);
  CHECK(refused([](auto& json) { json["choices"][0]["shapes"][0][2] = "AAA//A"; }).find("of the 2 splits") !=
        std::string::npos);
  CHECK(refused([](auto& json) { json["choices"][0]["rows"] = {1000, 10}; }).find("ascending") != std::string::npos);
  CHECK(refused([](auto& json) { json["choices"][0]["rows"] = {10, 10}; }).find("ascending") != std::string::npos);
  CHECK(refused([](auto& json) { json["choices"][0]["shapes"][1] = json["choices"][0]["shapes"][0]; }).find("once") !=
        std::string::npos);
  CHECK(refused([](auto& json) { json["choices"].push_back(json["choices"][0]); }).find("each kind of product once") !=
        std::string::npos);
  CHECK(refused([](auto& json) { json["kernels"] = nlohmann::json::array(); }).find("at least one") !=
        std::string::npos);
  // Sizes that no GPU has would overflow.
  CHECK(refused([](auto& json) { json["kernels"][0]["grids"][0] = {1 << 30, 1, 0}; }).find("1 to 64") !=
        std::string::npos);
  CHECK(refused([](auto& json) { json["kernels"][0]["tile"] = {1 << 30, 1}; }).find("4096") != std::string::npos);
  CHECK(refused([](auto& json) { json["splits"][0] = {0, 1 << 30}; }).find("65536") != std::string::npos);
  const nlohmann::json clock = {{"dtype", "tf32"}, {"flops", {1e9}}, {"log_factor", {0}}};
  CHECK(refused([&](auto& json) { json["clocks"] = {clock, clock}; }).find("each data type once") != std::string::npos);
  CHECK(refused([](auto& json) { json["splits"][0] = {9, 1}; }).find("splits[0]") != std::string::npos);
  CHECK(refused([](auto& json) { json.erase("library"); }).find("library") != std::string::npos);
}

}  // namespace
}  // namespace pdl
