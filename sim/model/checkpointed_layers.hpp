// Activation checkpointing of single layers, as PyTorch's users write it: checkpoint(block, x, use_reentrant=False). Of
// a checkpointed layer the input alone is kept, and its forward is run again before its backward.
//
//   checkpointed_layers(gpt2)      false, true, true, ..., true, false: the blocks
//   checkpointed_layers(mlp)       all
//
// Units: bytes. Not here: pipelines of pdl-run, which run the forward of a whole stage again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/model/model.hpp"

namespace pdl {

/// By layer. Of a model with blocks each block, else each layer that takes no tokens.
std::vector<bool> checkpointed_layers(const Model& model);

/// As kept_by_autograd (sim/model/model.hpp), of these layers.
std::int64_t kept_by_checkpoints(const Model& model, std::int64_t first, std::int64_t count, std::int64_t rows,
                                 Dtype dtype, const std::vector<std::int64_t>& number_bytes);

/// How many of a layer's inner layers run again: the forward stops where all that its backward reads is there
/// (set_checkpoint_early_stop of torch.utils.checkpoint, which is on). The last product of a block is not among them,
/// as a product keeps what goes into it; nor is the sum behind it.
std::size_t inner_layers_run_again(const Layer& layer);

/// All of them: its result is made again, too.
bool runs_again_to_its_end(const Layer& layer);

/// The most that is there at once, beside input and result, in a forward that keeps nothing: each tensor goes with the
/// last one that takes it. `with_casts`: casts of parameters that a backward would read go with it, too.
std::int64_t most_bytes_of_unkept_forward(const Layer& layer, const AutogradCase& at, bool with_casts);

}  // namespace pdl
