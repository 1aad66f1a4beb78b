#include "calibrate/probe/inner_operations.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/loss.h>

#include <utility>

#include "runtime/model/autocast.hpp"

namespace pdl {
namespace {

constexpr double kScale = 65536;  // of PyTorch's GradScaler at first

at::ScalarType number_type(Dtype dtype) {
  return dtype == Dtype::amp_fp16 ? at::kHalf : dtype == Dtype::amp_bf16 ? at::kBFloat16 : at::kFloat;
}

/// As Hugging Face's Llama has it.
at::Tensor rotated_half(const at::Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  return at::cat({-x.slice(-1, half), x.slice(-1, 0, half)}, -1);
}

}  // namespace

bool is_inner_probe(const Layer& layer) {
  return !layer.kind->stands_alone || layer.kind->takes_tokens || layer.kind->name == "position_embedding";
}

InnerOperations::InnerOperations(const Layer& layer, std::int64_t rows, Dtype dtype, c10::Device device)
    : layer_(layer), rows_(rows), dtype_(dtype), device_(device) {
  const std::string_view kind = layer.kind->name;
  if (kind == "scaled_dot_product") {
    add_attention();
  } else if (kind == "rotary") {
    add_rotary();
  } else if (kind == "embedding" || kind == "position_embedding") {
    add_embedding();
  } else {
    add_elementwise();
  }
}

std::vector<ComputeOperation> InnerOperations::list() {
  return list_;
}

at::Tensor InnerOperations::normal(at::IntArrayRef sizes, bool in_fp32) const {
  const auto options = at::TensorOptions().device(device_);
  return at::randn(sizes, options.dtype(in_fp32 ? at::kFloat : number_type(dtype_)));
}

void InnerOperations::add(const char* operation, std::function<void()> work, bool accumulate) {
  MeasuredKey key = layer_key(layer_, rows_, dtype_, operation, accumulate, /*input_gradient=*/true);
  key.implementation = "autograd";
  list_.push_back({key, 1, std::move(work)});
}

void InnerOperations::add_autograd(const std::function<at::Tensor()>& forward, const std::vector<at::Tensor>& inputs) {
  const at::Tensor output = forward();
  const at::Tensor gradient = at::randn(output.sizes(), output.options());
  add("forward", [forward] { forward(); });
  add("backward", [=] { torch::autograd::grad({output}, inputs, {gradient}, /*retain_graph=*/true); });
}

void InnerOperations::add_elementwise() {
  const std::string_view kind = layer_.kind->name;
  const std::int64_t width = output_numbers(layer_);
  const at::Tensor a = normal({rows_, width}), b = normal({rows_, width});
  const bool amp = is_amp(dtype_);
  if (kind == "sum") {
    const at::Tensor skipped = normal({rows_, width}, /*in_fp32=*/true);
    add("forward", [=] { at::add(skipped, a); });
    if (amp) add("backward", [=] { skipped.to(a.scalar_type()); });
  } else if (kind == "product") {
    add("forward", [=] { at::mul(a, b); });
    add("backward", [=] {
      at::mul(a, b);
      at::mul(b, a);
    });
  } else if (kind == "cast" && amp) {
    const at::Tensor in_fp32 = normal({rows_, width}, /*in_fp32=*/true);
    add("forward", [=] { in_fp32.to(a.scalar_type()); });
    add("backward", [=] { a.to(at::kFloat); });
  } else if (kind == "split") {
    add("backward", [parts = std::vector<at::Tensor>(a.chunk(3, 1))] { at::cat(parts, 1); });
  } else if (kind == "gradient_sum") {
    add("backward", [=] { at::add(a, b); });
  }
}

/// Queries, keys and values as a linear gives them, tokens before heads.
void InnerOperations::add_attention() {
  const auto [heads, kv_heads, head_size, tokens, unused, unused_too] = layer_.sizes;
  const bool grouped = kv_heads < heads;
  const at::Tensor q = normal({rows_, tokens, heads, head_size}).transpose(1, 2).set_requires_grad(true);
  const at::Tensor k = normal({rows_, tokens, kv_heads, head_size}).transpose(1, 2).set_requires_grad(true);
  const at::Tensor v = normal({rows_, tokens, kv_heads, head_size}).transpose(1, 2).set_requires_grad(true);
  add_autograd(
      [=] {
        return at::scaled_dot_product_attention(q, k, v, std::nullopt, 0.0, /*is_causal=*/true, std::nullopt, grouped);
      },
      {q, k, v});
}

void InnerOperations::add_rotary() {
  const auto [heads, kv_heads, head_size, tokens, unused, unused_too] = layer_.sizes;
  const at::Tensor q = normal({rows_, tokens, heads, head_size}).transpose(1, 2).set_requires_grad(true);
  const at::Tensor k = normal({rows_, tokens, kv_heads, head_size}).transpose(1, 2).set_requires_grad(true);
  const at::Tensor cos = normal({1, 1, tokens, head_size}), sin = normal({1, 1, tokens, head_size});
  const auto turned = [=](const at::Tensor& x) { return x * cos + rotated_half(x) * sin; };
  const std::vector<at::Tensor> outputs = {turned(q), turned(k)};
  const std::vector<at::Tensor> gradients = {at::randn_like(outputs[0]), at::randn_like(outputs[1])};
  add("forward", [=] {
    turned(q);
    turned(k);
  });
  add("backward", [=] { torch::autograd::grad(outputs, {q, k}, gradients, /*retain_graph=*/true); });
}

/// Learned positions are those of all sequences: a sum over them comes before their gradient.
void InnerOperations::add_embedding() {
  const bool positions = layer_.kind->name == "position_embedding";
  const auto [vocabulary, features, tokens, unused, unused_too, unused_last] = layer_.sizes;
  const auto whole = at::TensorOptions().device(device_).dtype(at::kLong);
  const at::Tensor weight = normal({vocabulary, features}, true), sum = at::zeros_like(weight);
  const at::Tensor x = normal({rows_, tokens, features}, true), gradient = normal({rows_, tokens, features}, true);
  const std::int64_t entries = vocabulary;
  if (positions) {
    const auto backward = [=, count = tokens] {
      return at::embedding_dense_backward(gradient.sum(0), at::arange(count, whole), entries, -1, false);
    };
    add("forward", [=, count = tokens] { at::add(x, at::embedding(weight, at::arange(count, whole))); });
    add("backward", [=] { backward(); });
    add("backward", [=] { at::Tensor(sum).add_(backward()); }, /*accumulate=*/true);
    return;
  }
  const at::Tensor ids = at::randint(vocabulary, {rows_, tokens}, whole);
  const auto backward = [=] { return at::embedding_dense_backward(gradient, ids, entries, -1, false); };
  add("forward", [=] { at::embedding(weight, ids); });
  add("backward", [=] { backward(); });
  add("backward", [=] { at::Tensor(sum).add_(backward()); }, /*accumulate=*/true);
}

CrossEntropyOperation::CrossEntropyOperation(std::int64_t tokens, std::int64_t vocabulary, Dtype dtype,
                                             c10::Device device)
    : tokens_(tokens), vocabulary_(vocabulary), dtype_(dtype) {
  const auto options = at::TensorOptions().device(device);
  logits_ = at::randn({tokens, vocabulary}, options.dtype(number_type(dtype))).set_requires_grad(true);
  target_ = at::randint(vocabulary, {tokens}, options.dtype(at::kLong));
  if (dtype == Dtype::amp_fp16) scaler_.emplace(kScale, device);
}

ComputeOperation CrossEntropyOperation::operation() {
  MeasuredKey key = loss_key("autograd", tokens_, vocabulary_, dtype_);
  key.name = kCrossEntropy;
  return {key, 1, [this] {
            logits_.mutable_grad().reset();
            at::Tensor loss;
            {
              const Autocast autocast(dtype_, logits_.device().type());
              loss = torch::nn::functional::cross_entropy(logits_, target_);
            }
            (scaler_ ? scaler_->scale(loss) : loss).backward();
          }};
}

}  // namespace pdl
