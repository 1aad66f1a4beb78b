#include "runtime/comm/replica_copies.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/utils/tensor_flatten.h>

#if PDL_CUDA
#include <torch/csrc/cuda/comm.h>
#include <torch/csrc/cuda/nccl.h>
#endif

#include <algorithm>
#include <limits>

namespace pdl {
namespace {

/// The sum of flat tensors, on the first one's device.
at::Tensor sum_of(const std::vector<at::Tensor>& flat) {
  if (flat.size() == 1) return flat.front();
#if PDL_CUDA
  if (flat.front().is_cuda()) {
    at::Tensor sum = at::empty_like(flat.front());
    torch::cuda::nccl::reduce(flat, sum);
    return sum;
  }
#endif
  at::Tensor sum = flat[0] + flat[1];
  for (std::size_t i = 2; i < flat.size(); ++i) sum.add_(flat[i]);
  return sum;
}

}  // namespace

at::Tensor copy_to(const at::Tensor& slice, at::Device device) {
  if (slice.device() == device) return slice.clone();
  return slice.to(slice.options().device(device), /*non_blocking=*/true);
}

std::vector<std::vector<at::Tensor>> broadcast_chunk(const std::vector<at::Tensor>& tensors,
                                                     const std::vector<at::Device>& devices) {
  const at::NoGradGuard no_grad;
  std::vector<std::vector<at::Tensor>> copies;
#if PDL_CUDA
  if (devices.front().is_cuda() && devices.size() > 1) {
    std::vector<std::int64_t> indices;
    for (const at::Device& device : devices) indices.push_back(device.index());
    copies = torch::cuda::broadcast_coalesced(tensors, indices, std::numeric_limits<std::int32_t>::max());
  }
#endif
  copies.resize(devices.size());
  copies.front().clear();
  for (const at::Tensor& tensor : tensors) {
    copies.front().push_back(tensor.variable_data());
    for (std::size_t d = 1; d < devices.size() && devices[d].is_cpu(); ++d)
      copies[d].push_back(tensor.detach().clone());
  }
  return copies;
}

std::vector<at::Tensor> reduce_chunk(const std::vector<std::vector<at::Tensor>>& of_devices) {
  std::vector<at::Tensor> flat;
  for (const std::vector<at::Tensor>& tensors : of_devices)
    flat.push_back(torch::utils::flatten_dense_tensors(tensors));
  const at::Tensor sum = sum_of(flat);
  std::vector<at::Tensor> sums;
  // They share memory, but nobody knows them as views of each other.
  for (const at::Tensor& part : torch::utils::unflatten_dense_tensors(sum, of_devices.front())) {
    sums.push_back(part.variable_data());
  }
  return sums;
}

}  // namespace pdl
