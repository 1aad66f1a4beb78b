// Which layers are run again, and a backward of autograd that is cut there.
//
//   layers 0 to 3, of which 1 and 2 are run again (embedding, two blocks, head), the first part first:
//
//   backward_parts(run_again, 0, 4, true)      B 3 with the loss;  R 2, B 2;  R 1, B 1;  B 0
//
// Where the model's last layer is run again, the loss comes before that: a part of no layers, the loss alone.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/checkpointed_layers.hpp"

namespace pdl {

struct Plan;

/// By layer of the model: is its forward run again, alone, before its backward (checkpointed_layers())? None in a plan
/// without recomputation, nor in pipelines, which run that of a whole stage again.
std::vector<bool> layers_run_again(const Plan& plan);

struct BackwardPart {
  std::int32_t first_layer = 0;
  std::int32_t layer_count = 0;
  bool runs_again = false;  // the forward of its one layer, before it
  bool loss = false;
};

/// Of layers [first, first + count). `run_again`: by layer of the model. `loss`: their backward begins with the loss.
std::vector<BackwardPart> backward_parts(const std::vector<bool>& run_again, std::int32_t first, std::int32_t count,
                                         bool loss);

}  // namespace pdl
