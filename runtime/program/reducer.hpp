// c10d's Reducer, which DistributedDataParallel consists of, made as torch/nn/parallel/distributed.py makes it: all
// parameters have gradients in every step.
//
//   auto reducer = make_reducer(parameters, {{{3, 2}, {1, 0}}, 25 << 20, 1 << 20, /*views=*/false}, group);
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <vector>

namespace pdl {

struct ReducerBuckets {
  std::vector<std::vector<std::size_t>> parameters;  // of each bucket, by their place
  std::int64_t bucket_bytes = 0;                     // for buckets that the Reducer makes anew
  std::int64_t first_bucket_bytes = 0;
  bool views = false;  // gradients are views of the buckets
};

std::shared_ptr<c10d::Reducer> make_reducer(const std::vector<at::Tensor>& parameters, const ReducerBuckets& buckets,
                                            const c10::intrusive_ptr<c10d::ProcessGroup>& group);

}  // namespace pdl
