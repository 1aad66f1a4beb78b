// The numbers that a training starts from: parameters, one batch of inputs and targets. All of them fixed by a seed.
//
//   initialise_layer(weight, bias, 3, seed);                     // layer 3 of the model, wherever it lives
//   Batch batch = make_batch(2048, 8192, 8192, device, seed);    // input 2048 x 8192, target 2048 x 8192
//
// Every tensor has a random generator of its own, seeded by the seed and by what it is for, so the numbers do not
// depend on how the layers are divided over devices: PyTorch's generator on a CUDA device is counter-based (Philox) and
// gives the same numbers on every card of one kind. CPU and CUDA give different numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pdl {

/// Uniform in +-1/sqrt(in), as nn.Linear draws weight (out x in) and bias (out). Written in place.
void initialise_layer(at::Tensor weight, at::Tensor bias, std::int64_t layer_index, std::uint64_t seed);

struct Batch {
  at::Tensor input;  // rows x width, fp32, standard normal
  at::Tensor target;
};

at::Tensor make_input(std::int64_t rows, std::int64_t width, at::Device device, std::uint64_t seed);
at::Tensor make_target(std::int64_t rows, std::int64_t width, at::Device device, std::uint64_t seed);
Batch make_batch(std::int64_t rows, std::int64_t input_width, std::int64_t target_width, at::Device device,
                 std::uint64_t seed);

}  // namespace pdl
