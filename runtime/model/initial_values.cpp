#include "runtime/model/initial_values.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#if PDL_CUDA
#include <ATen/cuda/CUDAGeneratorImpl.h>
#endif

namespace pdl {
namespace {

// What a generator is for. Layers count from 0.
constexpr std::uint64_t kInput = std::uint64_t{1} << 40;
constexpr std::uint64_t kTarget = kInput + 1;
constexpr std::uint64_t kMask = kInput + 2;

constexpr double kEmbeddingDeviation = .02;  // as GPT-2 draws it; nn.Embedding's is 1

/// Neighbouring seeds give unrelated streams (the finaliser of SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
std::uint64_t mix(std::uint64_t seed, std::uint64_t purpose) {
  std::uint64_t z = seed + (purpose + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

at::Generator make_generator(at::Device device, std::uint64_t seed, std::uint64_t purpose) {
#if PDL_CUDA
  if (device.is_cuda()) {
    at::Generator generator = at::cuda::detail::createCUDAGenerator(device.index());
    generator.set_current_seed(mix(seed, purpose));
    return generator;
  }
#endif
  TORCH_CHECK(device.is_cpu(), "no random generator for device ", device);
  return at::make_generator<at::CPUGeneratorImpl>(mix(seed, purpose));
}

at::TensorOptions on(at::Device device, at::ScalarType type) {
  return at::TensorOptions().device(device).dtype(type);
}

at::Tensor normal(std::int64_t rows, std::int64_t width, at::Device device, std::uint64_t seed, std::uint64_t purpose) {
  at::Tensor values = at::empty({rows, width}, on(device, at::kFloat));
  return values.normal_(0, 1, make_generator(device, seed, purpose));
}

at::Tensor tokens(std::int64_t rows, const Model& model, std::int64_t vocabulary, at::Device device, std::uint64_t seed,
                  std::uint64_t purpose) {
  at::Tensor values = at::empty({rows, sequence_tokens(model)}, on(device, at::kLong));
  return values.random_(0, vocabulary, make_generator(device, seed, purpose));
}

}  // namespace

void initialise_layer(at::Tensor weight, at::Tensor bias, std::int64_t layer_index, std::uint64_t seed) {
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  at::Generator generator = make_generator(weight.device(), seed, static_cast<std::uint64_t>(layer_index));
  weight.uniform_(-bound, bound, generator);
  if (bias.defined()) bias.uniform_(-bound, bound, generator);
}

void initialise_embedding(at::Tensor weight, std::int64_t layer_index, std::uint64_t seed) {
  weight.normal_(0, kEmbeddingDeviation,
                 make_generator(weight.device(), seed, static_cast<std::uint64_t>(layer_index)));
}

void draw_mask(at::Tensor mask, double share, std::int64_t layer_index, std::uint64_t draw, std::uint64_t seed) {
  const std::uint64_t of_layer = mix(seed, kMask + static_cast<std::uint64_t>(layer_index));
  mask.bernoulli_(share, make_generator(mask.device(), of_layer, draw));
}

at::Tensor make_input(const Model& model, std::int64_t rows, at::Device device, std::uint64_t seed) {
  const Layer& first = model.layers.front();
  if (!first.kind->takes_tokens) return normal(rows, input_numbers(model), device, seed, kInput);
  return tokens(rows, model, first.sizes[0], device, seed, kInput);
}

at::Tensor make_target(const Model& model, std::int64_t rows, at::Device device, std::uint64_t seed) {
  if (model.loss == Loss::mse) return normal(rows, output_numbers(model), device, seed, kTarget);
  return tokens(rows, model, loss_rows(model).width, device, seed, kTarget);
}

Batch make_batch(const Model& model, std::int64_t rows, at::Device device, std::uint64_t seed) {
  return {make_input(model, rows, device, seed), make_target(model, rows, device, seed)};
}

}  // namespace pdl
