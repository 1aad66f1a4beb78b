// How far off the times of layers are where nothing was measured: each size is predicted from all others.
//
//   profile.layer_errors = layer_errors(profile);
//
//   sizes measured   o   o x o    o        the one at x is taken out, with every number of rows of its widths, and
//                                          predicted; of |log(predicted / measured)| 90 % lie below the half width
//
// Where sizes were drawn at random (calibrate/probe/layer_probe.hpp), only these are held back: they lie among the
// others as the sizes that users ask for do, and the regular grid's lie farther apart. Operations below 50 us are left
// out: a step of such is bound by its host. The others fall into those below 150 us, below 500 us, and above. Where
// fewer than eight are of a class, the next shorter one counts. Units: relative.
#pragma once

#include <vector>

#include "sim/cost/cost_profile.hpp"

namespace pdl {

/// By implementation, data type, whether the library was asked for such sizes, and time, of layers made of products.
/// Empty without a model of products.
std::vector<LayerError> layer_errors(const CostProfile& profile);

}  // namespace pdl
