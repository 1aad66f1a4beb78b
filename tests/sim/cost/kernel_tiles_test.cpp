// Kernels whose blocks take one tile after another count by their tiles.
#include "sim/cost/kernel_tiles.hpp"

#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

/// Rows x 1000 -> 2000.
MeasuredKey key(const char* operation, std::int64_t rows) {
  MeasuredKey key = ProfileBuilder::layer_key(operation, 1000, 2000, rows);
  key.implementation = "autograd";
  key.dtype = Dtype::amp_bf16;
  return key;
}

Kernel kernel(const std::string& name, std::int64_t blocks = 132) {
  return {name, 1e3, blocks, 1, 1};
}

std::vector<std::int64_t> blocks(const std::vector<Kernel>& kernels) {
  std::vector<std::int64_t> all;
  for (const Kernel& of : kernels) all.push_back(of.blocks);
  return all;
}

using Blocks = std::vector<std::int64_t>;

TEST_CASE("a product that works through its tiles has as many blocks as those", "[kernel_tiles]") {
  const std::string nvjet = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT";
  // The result of a forward: 2000 x 4000 (m x n), 8 x 32 tiles of 256 x 128.
  CHECK(blocks(kernels_by_tiles({kernel(nvjet)}, key("forward", 4000))) == Blocks{8 * 32});
  CHECK(blocks(kernels_by_tiles({kernel(nvjet)}, key("forward", 100))) == Blocks{132});  // no fewer than there are
  // xmma: the other direction first.
  const std::string xmma = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize256x128x32_warpgroupsize2x1x1_execute";
  CHECK(blocks(kernels_by_tiles({kernel(xmma)}, key("forward", 4000))) == Blocks{16 * 16});
}

TEST_CASE("a backward has two products, one after the other, and others beside them", "[kernel_tiles]") {
  const std::vector<Kernel> kernels = {kernel("elementwise", 16384), kernel("nvjet_sm90_tst_100x100_64x4_1x2_h_bz"),
                                       kernel("nvjet_sm90_tst_100x50_64x4_1x2_h_bz"), kernel("reduce_kernel", 2048)};
  // Input 1000 x 4000, weight 1000 x 2000.
  CHECK(blocks(kernels_by_tiles(kernels, key("backward", 4000))) == Blocks{16384, 10 * 40, 10 * 40, 2048});
  MeasuredKey first = key("backward", 4000);
  first.input_gradient = false;
  const std::vector<Kernel> alone = {kernels[0], kernels[2]};
  CHECK(blocks(kernels_by_tiles(alone, first)) == Blocks{16384, 10 * 40});
}

TEST_CASE("whose tiles are blocks, or whose name says no tile, stays as it is", "[kernel_tiles]") {
  for (const char* name : {"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8_stage3", "cutlass::Kernel2",
                           "nvjet_x", "nvjet_sm90_tst_99999x99999_a", "nvjet_0x0_"})
    CHECK(blocks(kernels_by_tiles({kernel(name, 77)}, key("forward", 4000))) == Blocks{77});
  CHECK(blocks(kernels_by_tiles({kernel("nvjet_sm90_tst_256x128_", 0)}, key("forward", 4000))) == Blocks{0});
}

}  // namespace
}  // namespace pdl
