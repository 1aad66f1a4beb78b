// Matrix products of layers: which kernel the library has for sizes of a lattice, and how long products of some sizes
// take. What profiles need to price layers of widths and rows that no probe measured (sim/cost/product_model.hpp).
//
//   for (ProbePart& part : product_parts(options, runtime)) ...    // a part a data type, on the first GPU; none on CPU
//
//   asked    LibTorch's own calls (addmm with a bias; mm for both gradients) with every width from 64 to 12,288 that is
//            a multiple of 64 (square), pairs of fewer widths, and 320 numbers of rows, of which half are known from
//            those around (rows_in_steps.hpp): by up to 14 threads, 4 to 8 s a data type
//   timed    sizes drawn at random, three fifths of them square, the most expensive first: on tensor cores the clock
//            depends on the power drawn just before, so neighbours are alike. Weights take turns, to come from
//            memory as in training; activations and gradients are half zeros, as behind a ReLU.
//
// A pipeline's products in fp32 are asked and timed in all ways that they could be run by
// (runtime/model/matrix_products.hpp). With TF32 these are LibTorch's calls, by the same kernels as autograd's; but
// those that add to their result read it first (22 % of a weight gradient), so they are timed too.
#pragma once

#include <vector>

#include "calibrate/probe/probe.hpp"
#include "calibrate/probe/probe_part.hpp"
#include "runtime/device/runtime_options.hpp"

namespace pdl {

std::vector<ProbePart> product_parts(const ProbeOptions& options, const RuntimeOptions& runtime);

}  // namespace pdl
