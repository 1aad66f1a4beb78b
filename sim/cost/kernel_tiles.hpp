// Into how many pieces the work of a matrix product's kernel falls, where that is not how many thread blocks it has.
//
//   kernels_by_tiles(kernels, key)     // nvjet_..._256x128_..., 132 blocks, of 2048 rows x 8192: 512
//
// Kernels of Hopper have a block a multiprocessor, which takes one tile of the result after another until none is left.
// If a collective holds some of the multiprocessors, the others take its tiles too: a product of 512 tiles has 5 waves
// on 108 of 132, not 4. As blocks they would wait, and take twice as long. Measured on H200: bf16 2048 x 8192 x 8192
// takes .347 ms alone and .426 beside all-reduces; 512 x 4096 x 4096, whose 128 tiles are one wave, .029 and .052; in
// steps of DDP a layer's backward of 0.95 ms takes 1.20 (data/h200x2/runs, ddp, 4 x 8192).
//
// Not here: kernels that give each tile a block, whose blocks are counted as they are (sim/engine/multiprocessors.hpp).
#pragma once

#include <vector>

#include "sim/cost/curve.hpp"
#include "sim/cost/measured_key.hpp"

namespace pdl {

/// The kernels of an operation of a layer, with the tiles of such products in the place of their blocks.
std::vector<Kernel> kernels_by_tiles(std::vector<Kernel> kernels, const MeasuredKey& operation);

}  // namespace pdl
