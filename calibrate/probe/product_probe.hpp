// Matrix products of layers: which kernel the library has for sizes of a lattice, and how long products of some sizes
// take. What profiles need to price layers of widths and rows that no probe measured (sim/cost/product_model.hpp).
//
//   for (ProbePart& part : product_parts(options, runtime)) ...    // a part a data type, on the first GPU; none on CPU
//
//   asked    LibTorch's own calls (addmm with a bias; mm for both gradients) with every width from 64 to 12,288 that is
//   a
//            multiple of 64 (square), pairs of fewer widths, and 60 numbers of rows: some 80,000 captures a data type,
//            4 to 10 s
//   timed    sizes drawn at random, three fifths of them square, the most expensive first: on tensor cores the clock
//            depends on the power drawn just before, so neighbours are alike. Weights take turns, to come from
//            memory as in training; activations and gradients are half zeros, as behind a ReLU.
//
// A pipeline's products (fp32) are asked and timed in all ways that they could be run by
// (runtime/model/matrix_products.hpp).
// With TF32 these are LibTorch's calls. In all 3,517 sizes that were tried on an H200 (CUDA 13.0) LibTorch took the
// same kernel with a bias as with bias and ReLU, and the same whether or not it adds to the result: asked once.
#pragma once

#include <vector>

#include "calibrate/probe/probe.hpp"
#include "calibrate/probe/probe_part.hpp"
#include "runtime/device/runtime_options.hpp"

namespace pdl {

std::vector<ProbePart> product_parts(const ProbeOptions& options, const RuntimeOptions& runtime);

}  // namespace pdl
