// What nn.DataParallel moves between GPU 0 and the others: slices of a batch, chunks of parameters and of gradients.
//
//   at::Tensor slice = copy_to(input.narrow(0, 4, 4), gpu1);
//   auto copies = broadcast_chunk({weight, bias}, {gpu0, gpu1});       // copies[1][0]: the weight on GPU 1
//   auto sums = reduce_chunk({{dw, db}, {dw1, db1}});                  // on the first device
//
// Sources (PyTorch 2.11): torch/csrc/cuda/comm.cpp and torch/nn/parallel/comm.py: slices by peer copies, a chunk as one
// flat tensor by one NCCL broadcast or reduce. Everything on the current streams of the devices that take part. Where
// all devices are the CPU, a copy is a copy in its memory. Not here: autograd, which chunks there are.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pdl {

/// A new tensor on `device`.
at::Tensor copy_to(const at::Tensor& slice, at::Device device);

/// All `parts` one below the other, on `device`. Calls `before(i)` and `after(i)` round the copy of part i.
template <typename Before, typename After>
at::Tensor gather_rows(const std::vector<at::Tensor>& parts, at::Device device, Before before, After after) {
  std::int64_t rows = 0;
  for (const at::Tensor& part : parts) rows += part.size(0);
  std::vector<std::int64_t> sizes = parts.front().sizes().vec();
  sizes.front() = rows;
  at::Tensor whole = at::empty(sizes, parts.front().options().device(device));
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    before(i);
    whole.narrow(0, first, parts[i].size(0)).copy_(parts[i], /*non_blocking=*/true);
    after(i);
    first += parts[i].size(0);
  }
  return whole;
}

/// `tensors` are on devices[0]. By device, by tensor: the first device's are the tensors themselves under new names.
std::vector<std::vector<at::Tensor>> broadcast_chunk(const std::vector<at::Tensor>& tensors,
                                                     const std::vector<at::Device>& devices);

/// By device, by tensor: of the same shapes on every device. Their sums, on the first device. Without gradient mode.
std::vector<at::Tensor> reduce_chunk(const std::vector<std::vector<at::Tensor>>& of_devices);

}  // namespace pdl
