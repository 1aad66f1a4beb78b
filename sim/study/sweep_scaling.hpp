// What more GPUs bring, in a sweep whose GPUs vary: speed-up and efficiency against the row with the fewest.
//
//   --gpus 1,2,4 --batch 64 --scaling strong    batch 64, 64, 64: the step is to get shorter
//   --gpus 1,2,4 --batch 64 --scaling weak      batch 64, 128, 256: the step is to stay as long
#pragma once

#include "sim/study/sweep.hpp"

namespace pdl {

/// Before anything is predicted: which rows belong together and, of weak scaling, the batch of each. Throws InputError
/// if a scaling was asked for and the GPUs do not vary, and for a batch that does not grow with them to a whole number.
void begin_scaling(const std::optional<Scaling>& asked, Sweep& sweep);

/// After it: the speed-up of each row that can run against the one with the fewest GPUs that does the same work. A row
/// on one GPU that is alone with its work is its own base, 1; a row on several that is alone has none.
void compare_with_fewest_gpus(Sweep& sweep);

}  // namespace pdl
