// Which gradients travel together: the buckets of DistributedDataParallel, and the chunks of DataParallel.
//
//   gradient_buckets({4 layers of 8192 x 8192}, 1 MiB, 25 MiB)
//     bucket 0: bias 3, weight 3     268,468,224 bytes, full when the backward of layer 3 has ended
//     bucket 1: bias 2, weight 2     ...
//
// DDP (torch/csrc/distributed/c10d/reducer.cpp, PyTorch 2.11, compute_bucket_assignment_by_size): tensors in the order
// in which their gradients come, the reverse of registration, are put into a bucket until it has at least its limit of
// bytes; the first bucket has a limit of its own. Whole tensors: a bucket may be larger than its limit. DataParallel
// (torch/csrc/utils/tensor_flatten.cpp, take_tensors): the same in registration order with 10 MiB
// (torch/nn/parallel/_functions.py passes comm.broadcast_coalesced's default).
//
// Units: bytes, fp32.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/model/dtype.hpp"
#include "sim/model/model.hpp"

namespace pdl {

/// Indices of tensors, in the order in which they were put in.
using TensorIndices = std::vector<std::size_t>;

/// `bytes`: of each tensor in the order in which they are put in. The first bucket is full at `first_limit`, others at
/// `limit`; the last one may stay below.
std::vector<TensorIndices> fill_buckets(std::span<const std::int64_t> bytes, std::int64_t first_limit,
                                        std::int64_t limit);

/// Buckets of a model's gradients. Tensors are registered layer after layer, each layer's in the order of
/// parameter_tensors(): weight 0, bias 0, weight 1, ...; a layer may have none.
struct GradientBucket {
  TensorIndices tensors;  // by registration
  std::int64_t bytes = 0;
  /// The lowest layer with a tensor in it: its backward fills the bucket.
  std::int32_t lowest_layer = 0;
  bool operator==(const GradientBucket&) const = default;
};

/// In which order the gradients of a layer's backward come.
enum class GradientOrder : std::uint8_t {
  bias_first,   // the reverse of registration
  weight_first  // under autocast: the half of a weight is cast back before that of the bias (PyTorch 2.11, seen of a
                // stack of nn.Linear; its Reducer takes this order for its buckets after the first step)
};

/// DDP's, in the order in which they are full.
std::vector<GradientBucket> gradient_buckets(const Model& model, std::int64_t first_limit, std::int64_t limit,
                                             GradientOrder order = GradientOrder::bias_first);

/// DataParallel's chunks, in registration order.
std::vector<GradientBucket> parameter_chunks(const Model& model, std::int64_t limit = std::int64_t{10} << 20);

/// DataParallel's chunks of gradients, in registration order. Python cuts them (torch/_utils.py, _take_tensors, PyTorch
/// 2.11), not C++ as those of the parameters (parameter_chunks): a tensor that would take a chunk beyond `limit` bytes
/// begins the next one. A large weight travels alone, and is not copied into a flat tensor first.
std::vector<GradientBucket> reduce_chunks(const Model& model, std::int64_t limit = std::int64_t{10} << 20);

}  // namespace pdl
