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

at::Tensor normal(std::int64_t rows, std::int64_t width, at::Device device, std::uint64_t seed, std::uint64_t purpose) {
  at::Tensor values = at::empty({rows, width}, at::TensorOptions().device(device).dtype(at::kFloat));
  return values.normal_(0, 1, make_generator(device, seed, purpose));
}

}  // namespace

void initialise_layer(at::Tensor weight, at::Tensor bias, std::int64_t layer_index, std::uint64_t seed) {
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  at::Generator generator = make_generator(weight.device(), seed, static_cast<std::uint64_t>(layer_index));
  weight.uniform_(-bound, bound, generator);
  bias.uniform_(-bound, bound, generator);
}

at::Tensor make_input(std::int64_t rows, std::int64_t width, at::Device device, std::uint64_t seed) {
  return normal(rows, width, device, seed, kInput);
}

at::Tensor make_target(std::int64_t rows, std::int64_t width, at::Device device, std::uint64_t seed) {
  return normal(rows, width, device, seed, kTarget);
}

Batch make_batch(std::int64_t rows, std::int64_t input_width, std::int64_t target_width, at::Device device,
                 std::uint64_t seed) {
  return {make_input(rows, input_width, device, seed), make_target(rows, target_width, device, seed)};
}

}  // namespace pdl
