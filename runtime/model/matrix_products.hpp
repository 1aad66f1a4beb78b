// Products of matrices, of fp32 each by the fastest of several ways on this card.
//
//   MatrixProducts products(device);
//   products.tune({dW, dZ_transposed, X, 1, 1, {}});       // before the first step: times the ways, keeps the best
//   products.run({dW, dZ_transposed, X, 1, 1, {}});        // dW = 1 * dZ^T X + 1 * dW
//   products.run({Y, X, W_transposed, 1, 0, bias});        // Y = relu(X W^T + bias)
//
// The ways are LibTorch's own call and the kernels that cuBLASLt proposes for the shape
// (cublasLtMatmulAlgoGetHeuristic). Its first proposal, which libraries take, is not always the fastest: forward 256 x
// 4096 x 4096 on an H100 takes 250 us by LibTorch's fused call, 185 us by another kernel. A way that is less than 1 %
// faster than LibTorch's is not taken. The choice is made once a process and shape, so that every stage of equal layers
// runs equal kernels. On CPU, where TF32 is allowed, and of half precision under autocast LibTorch's call is the only
// way. Not here: batched products.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "sim/model/dtype.hpp"

namespace pdl {

/// out (r x c) = alpha * a (r x k) b (k x c) + beta * out; with a bias (c): out = relu(a b + bias), or a b + bias, with
/// alpha 1, beta 0.
/// out is contiguous, a and b are contiguous or transposed views of contiguous matrices.
struct MatrixProduct {
  at::Tensor& out;
  const at::Tensor& a;
  const at::Tensor& b;
  double alpha = 1;
  double beta = 0;
  const at::Tensor& bias;  // undefined: none
  bool relu = true;        // where there is a bias
};

class MatrixProducts {
 public:
  explicit MatrixProducts(at::Device device, Dtype dtype = Dtype::fp32);
  ~MatrixProducts();

  /// Decides how products of this shape are run, on the current stream. Writes to `out`. Waits for the device.
  void tune(const MatrixProduct& product);

  /// On the current stream. A shape that was not tuned is run by LibTorch's call.
  void run(const MatrixProduct& product);

  /// For probes: how many ways there are, LibTorch's call first, and one of them. `ways` asks cuBLASLt, each time anew;
  /// run_way is for the product that was asked for last. A way that this product cannot be run by is skipped: false.
  std::size_t ways(const MatrixProduct& product);
  bool run_way(const MatrixProduct& product, std::size_t way);

 private:
  struct Ways;
  std::unique_ptr<Ways> ways_;  // null: LibTorch's call is the only one
};

}  // namespace pdl
