// The operations of layers inside of transformers that are probed one by one: attention, sums, casts and what else is
// no module of its own, embeddings, and cross-entropy.
//
//   InnerOperations operations(layer, 8, Dtype::amp_bf16, device);       // 8 rows: of attention sequences
//   for (const ComputeOperation& operation : operations.list()) timer.time(operation.work, ...);
//
// Attention and rotary positions run under autograd, as a step runs them (a backward again and again over a graph that
// is kept); of the others the kernels that autograd launches are called directly, so that their issue times are those
// of LibTorch without autograd, a few microseconds less. Activations are normal numbers.
//
// Not here: layers that are modules (autograd_operations.hpp); pipelines' layers of these kinds, which launch the same
// kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "calibrate/probe/compute_operations.hpp"
#include "runtime/model/grad_scaler.hpp"

namespace pdl {

/// A kind that is probed here: it does not stand alone, or is of sequences of tokens.
bool is_inner_probe(const Layer& layer);

class InnerOperations {
 public:
  InnerOperations(const Layer& layer, std::int64_t rows, Dtype dtype, c10::Device device);
  std::vector<ComputeOperation> list();

 private:
  at::Tensor normal(at::IntArrayRef sizes, bool in_fp32 = false) const;
  void add(const char* operation, std::function<void()> work, bool accumulate = false);
  void add_autograd(const std::function<at::Tensor()>& forward, const std::vector<at::Tensor>& inputs);
  void add_elementwise();
  void add_attention();
  void add_rotary();
  void add_embedding();

  Layer layer_;
  std::int64_t rows_;
  Dtype dtype_;
  c10::Device device_;
  std::vector<ComputeOperation> list_;
};

/// cross_entropy of tokens x vocabulary logits and its gradient, as autocast has them; with amp-fp16 scaled.
class CrossEntropyOperation {
 public:
  CrossEntropyOperation(std::int64_t tokens, std::int64_t vocabulary, Dtype dtype, c10::Device device);
  ComputeOperation operation();

 private:
  std::int64_t tokens_, vocabulary_;
  Dtype dtype_;
  at::Tensor logits_, target_;
  std::optional<GradScaler> scaler_;
};

}  // namespace pdl
