// What the names of matrix products' kernels say.
//
//   tile_in_name("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x256x32_...")    // 256 x 128
//   tile_in_name("nvjet_sm90_tst_192x160_64x4_1x2_h_bz_coopB_TNT")                   // 192 x 160
//   tile_in_name("cutlass_80_simt_sgemm_256x128_8x4_nn_align1")                      // 256 x 128
//
// As cuBLAS 13.1 names them. Units: numbers of the result. Not here: what only a capture says (resident blocks, grids).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace pdl {

/// It multiplies matrices, and does not only add the parts of a product.
bool is_product_kernel(const std::string& name);

/// Its blocks take one tile of the result after another, until none is left: kernels of Hopper.
bool works_through_tiles(const std::string& name);

/// What a block makes of the result at once, as (m, n) of ProductShape. Names of xmma kernels have the other direction
/// first; a few of them mean it as the others do, which a fit can find. Nothing: the name does not say.
std::optional<std::pair<std::int64_t, std::int64_t>> tile_in_name(const std::string& name);

}  // namespace pdl
