// The numbers that a training starts from: parameters, one batch of inputs and targets. All of them fixed by a seed.
//
//   initialise_layer(weight, bias, 3, seed);                     // layer 3 of the model, wherever it lives
//   Batch batch = make_batch(model, 2048, device, seed);         // input and target of 2048 samples
//
// Every tensor has a random generator of its own, seeded by the seed and by what it is for, so the numbers do not
// depend on how the layers are divided over devices: PyTorch's generator on a CUDA device is counter-based (Philox) and
// gives the same numbers on every card of one kind. CPU and CUDA give different numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sim/model/model.hpp"

namespace pdl {

/// Uniform in +-1/sqrt(in), as nn.Linear draws weight (out x in) and bias (out; undefined: there is none). Written in
/// place.
void initialise_layer(at::Tensor weight, at::Tensor bias, std::int64_t layer_index, std::uint64_t seed);

/// Normal, with a standard deviation of .02 as GPT-2 has it: with that of nn.Embedding, 1, a tied head would begin with
/// logits in the tens.
void initialise_embedding(at::Tensor weight, std::int64_t layer_index, std::uint64_t seed);

/// Dropout's: 1 with the probability `share`, else 0. The same where layer, draw and seed are.
void draw_mask(at::Tensor mask, double share, std::int64_t layer_index, std::uint64_t draw, std::uint64_t seed);

/// Numbers are fp32 and standard normal, rows x width; tokens uniform in the vocabulary, whole numbers of 8 bytes, rows
/// x tokens.
struct Batch {
  at::Tensor input;
  at::Tensor target;
};

at::Tensor make_input(const Model& model, std::int64_t rows, at::Device device, std::uint64_t seed);
at::Tensor make_target(const Model& model, std::int64_t rows, at::Device device, std::uint64_t seed);
Batch make_batch(const Model& model, std::int64_t rows, at::Device device, std::uint64_t seed);

}  // namespace pdl
