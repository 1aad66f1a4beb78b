// What autograd sees of each kind, against what PyTorch's own modules or a plain composition give; and that what a
// pipeline computes by hand is what autograd does.
#include "runtime/model/layer_modules.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/autograd.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/normalization.h>

#include <set>
#include <string>
#include <vector>

#include "runtime/model/autocast.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/transformer_models.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kRows = 3;

bool close(const at::Tensor& a, const at::Tensor& b, double tolerance = 1e-5) {
  return at::allclose(a, b, 1e-4, tolerance);
}

at::Tensor normal(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

at::Tensor input_of(const Layer& layer) {
  if (layer.kind->takes_tokens)
    return at::arange(kRows * input_numbers(layer)).view({kRows, -1}).remainder(layer.sizes[0]);
  return normal({kRows, input_numbers(layer)}, 1);
}

/// Normal numbers, so that no bias is 0 and no norm's weight is 1.
std::vector<at::Tensor> parameters_of(const Layer& layer) {
  std::vector<at::Tensor> parameters;
  for (const ParameterTensor& tensor : parameter_tensors(layer))
    parameters.push_back(normal(tensor.shape, 10 + parameters.size()) * .5);
  return parameters;
}

using Parameters = const std::vector<at::Tensor>&;

at::Tensor attention_by_hand(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const std::int64_t tokens = q.size(2);
  const at::Tensor mask = at::ones({tokens, tokens}, at::kBool).tril();
  const at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
  return at::matmul(scores.masked_fill(mask.logical_not(), -1e30).softmax(-1), v).transpose(1, 2).flatten(2);
}

at::Tensor by_head(const at::Tensor& x, std::int64_t heads) {
  return x.unflatten(2, {heads, -1}).transpose(1, 2);
}

at::Tensor norm_by_hand(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  const at::Tensor centred = x - x.mean(-1, true);
  return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * w + b;
}

at::Tensor rms_by_hand(const at::Tensor& x, const at::Tensor& w) {
  return x / (x.square().mean(-1, true) + 1.1920929e-7).sqrt() * w;
}

at::Tensor gelu_tanh_by_hand(const at::Tensor& x) {
  return x / 2 * (1 + (std::sqrt(2 / M_PI) * (x + .044715 * x.pow(3))).tanh());
}

at::Tensor gpt_block_by_hand(const at::Tensor& flat, Parameters p) {
  at::Tensor x = flat.view({kRows, kTinyTokens, kTinyFeatures});
  const std::vector<at::Tensor> qkv = at::linear(norm_by_hand(x, p[0], p[1]), p[2], p[3]).chunk(3, 2);
  x = x + at::linear(attention_by_hand(by_head(qkv[0], 2), by_head(qkv[1], 2), by_head(qkv[2], 2)), p[4], p[5]);
  const at::Tensor inner = gelu_tanh_by_hand(at::linear(norm_by_hand(x, p[6], p[7]), p[8], p[9]));
  return (x + at::linear(inner, p[10], p[11])).flatten(1);
}

/// Each pair (i, i + half) of a head is a number of the plane, turned by position / 10000^(2 i / head size).
at::Tensor turned_by_hand(const at::Tensor& heads) {
  const std::int64_t half = heads.size(3) / 2;
  std::vector<at::Tensor> first, second;
  for (std::int64_t i = 0; i < half; ++i) {
    const at::Tensor angle =
        at::arange(heads.size(2)) * std::pow(10000., -static_cast<double>(i) / static_cast<double>(half));
    const at::Tensor a = heads.select(3, i), b = heads.select(3, i + half);
    first.push_back(a * angle.cos() - b * angle.sin());
    second.push_back(b * angle.cos() + a * angle.sin());
  }
  first.insert(first.end(), second.begin(), second.end());
  return at::stack(first, 3).to(at::kFloat);
}

at::Tensor llama_block_by_hand(const at::Tensor& flat, Parameters p) {
  at::Tensor x = flat.view({kRows, kTinyTokens, kTinyFeatures});
  const at::Tensor normed = rms_by_hand(x, p[0]);
  const auto shared = [](const at::Tensor& kv) { return at::cat({kv, kv}, 1); };
  const at::Tensor q = turned_by_hand(by_head(at::linear(normed, p[1]), 2));
  const at::Tensor k = shared(turned_by_hand(by_head(at::linear(normed, p[2]), 1)));
  x = x + at::linear(attention_by_hand(q, k, shared(by_head(at::linear(normed, p[3]), 1))), p[4]);
  const at::Tensor second = rms_by_hand(x, p[5]), gate = at::linear(second, p[6]);
  return (x + at::linear(gate * gate.sigmoid() * at::linear(second, p[7]), p[8])).flatten(1);
}

at::Tensor attention_layer_by_hand(const at::Tensor& flat, Parameters) {
  const std::vector<at::Tensor> parts = flat.view({kRows, kTinyTokens, -1}).split_with_sizes({32, 16, 16}, 2);
  const auto shared = [](const at::Tensor& kv) { return at::repeat_interleave(by_head(kv, 2), 2, 1); };
  return attention_by_hand(by_head(parts[0], 4), shared(parts[1]), shared(parts[2])).flatten(1);
}

struct Case {
  Layer layer;
  at::Tensor (*by_hand)(const at::Tensor& x, Parameters p);
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {linear_relu(5, 7), [](const at::Tensor& x, Parameters p) { return (at::mm(x, p[0].t()) + p[1]).clamp_min(0); }},
      {linear(5, 7), [](const at::Tensor& x, Parameters p) { return at::mm(x, p[0].t()) + p[1]; }},
      {linear_no_bias(5, 7), [](const at::Tensor& x, Parameters p) { return at::mm(x, p[0].t()); }},
      {layer_of("layer_norm", {6}), [](const at::Tensor& x, Parameters p) { return norm_by_hand(x, p[0], p[1]); }},
      {layer_of("rms_norm", {6}), [](const at::Tensor& x, Parameters p) { return rms_by_hand(x, p[0]); }},
      {layer_of("gelu", {6}), [](const at::Tensor& x, Parameters) { return x / 2 * (1 + (x / std::sqrt(2.)).erf()); }},
      {layer_of("gelu_tanh", {6}), [](const at::Tensor& x, Parameters) { return gelu_tanh_by_hand(x); }},
      {layer_of("silu", {6}), [](const at::Tensor& x, Parameters) { return x * x.sigmoid(); }},
      {layer_of("softmax", {6}), [](const at::Tensor& x, Parameters) { return x.exp() / x.exp().sum(1, true); }},
      {layer_of("embedding", {9, 5, 4}),
       [](const at::Tensor& x, Parameters p) { return p[0].index({x.flatten()}).view({kRows, -1}); }},
      {layer_of("position_embedding", {6, 5, 4}),
       [](const at::Tensor& x, Parameters p) { return x + p[0].narrow(0, 0, 4).flatten(); }},
      {layer_of("attention", {4, 2, 8, kTinyTokens}), attention_layer_by_hand},
      {tiny_gpt().layers[0],
       [](const at::Tensor& x, Parameters p) {
         return p[0].index({x.flatten()}).view({kRows, -1}) + p[1].narrow(0, 0, kTinyTokens).flatten();
       }},
      {tiny_gpt().layers[1], gpt_block_by_hand},
      {tiny_gpt().layers[3],
       [](const at::Tensor& x, Parameters p) {
         return at::linear(norm_by_hand(x.view({-1, kTinyFeatures}), p[0], p[1]), p[2]).view({kRows, -1});
       }},
      {tiny_llama().layers[1], llama_block_by_hand},
      {tiny_llama().layers[3],
       [](const at::Tensor& x, Parameters p) {
         return at::linear(rms_by_hand(x.view({-1, kTinyFeatures}), p[0]), p[1]).view({kRows, -1});
       }},
  };
  return all;
}

struct Results {
  at::Tensor result;
  std::vector<at::Tensor> gradients;  // of the input, where it has one, and of the parameters
};

template <typename Forward>
Results with_gradients(const Layer& layer, const at::Tensor& gradient, const Forward& forward) {
  at::Tensor x = input_of(layer);
  std::vector<at::Tensor> parameters = parameters_of(layer), inputs;
  if (x.is_floating_point()) inputs.push_back(x.requires_grad_(true));
  for (at::Tensor& parameter : parameters) inputs.push_back(parameter.requires_grad_(true));
  const at::Tensor result = forward(x, parameters);
  return {result.detach(), torch::autograd::grad({result}, inputs, {gradient})};
}

void check_equal(const Results& a, const Results& b) {
  CHECK(a.result.sizes() == b.result.sizes());
  CHECK(close(a.result, b.result));
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (std::size_t i = 0; i < a.gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(close(a.gradients[i], b.gradients[i], 1e-4));
  }
}

/// As a stage of a pipeline runs the layer: buffers of which it says how large they are.
class ByPipeline {
 public:
  explicit ByPipeline(const Layer& layer, Dtype dtype = Dtype::fp32, std::int64_t input_number_bytes = kBytesPerNumber)
      : dtype_(dtype),
        input_number_bytes_(input_number_bytes),
        parameters_(parameters_of(layer)),
        products_(at::kCPU, dtype) {
    for (const at::Tensor& parameter : parameters_) gradients_.push_back(at::full_like(parameter, NAN));
    PipelineLayerParts parts{layer, 0, 7, at::kCPU, parameters_, gradients_, products_, products_};
    parts.dtype = dtype;
    parts.input_number_bytes = input_number_bytes;
    layer_ = make_pipeline_layer(parts);
    layer_->parameters_changed();
    const PipelineTensors tensors = pipeline_tensors(layer, {kRows, dtype, input_number_bytes});
    for (const TensorSize& tensor : tensors.kept) kept_.push_back(filled(tensor));
    for (const TensorSize& tensor : tensors.gradients) inner_.push_back(filled(tensor));
    ones_ = at::ones({kRows * tensors.ones_of_a_row});
  }

  /// `of_result`: in the type of the result.
  Results run(const Layer& layer, const at::Tensor& of_result) {
    at::Tensor x = input_of(layer);
    if (x.is_floating_point()) x = x.to(number_type(dtype_, input_number_bytes_));
    at::Tensor result =
        filled({kRows * output_numbers(layer), result_number_bytes(layer, dtype_, input_number_bytes_)});
    result = result.view({kRows, -1});
    layer_->forward({x, result, kept_});
    at::Tensor gradient = of_result.clone();
    const at::Tensor transposed = gradient.t();
    const LayerBackward at{x, result, kept_, gradient, transposed, ones_, 1, inner_};
    layer_->begin_backward(at);
    Results results{result, {}};
    if (x.is_floating_point()) {
      results.gradients.push_back(at::full_like(x, NAN));
      layer_->input_gradient(at, results.gradients.back());
    }
    if (parameters_.empty()) return results;
    layer_->weight_gradient(at, /*accumulate=*/false);
    for (const at::Tensor& own : gradients_) results.gradients.push_back(own.clone());
    layer_->weight_gradient(at, /*accumulate=*/true);
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      CHECK(close(gradients_[i], 2 * results.gradients[results.gradients.size() - gradients_.size() + i], 1e-4));
    return results;
  }

 private:
  at::Tensor filled(const TensorSize& tensor) const {
    return at::full({tensor.numbers}, NAN, number_type(dtype_, tensor.number_bytes));
  }

  Dtype dtype_;
  std::int64_t input_number_bytes_;
  std::vector<at::Tensor> parameters_, gradients_, kept_, inner_;
  at::Tensor ones_;
  MatrixProducts products_;
  std::unique_ptr<PipelineLayer> layer_;
};

}  // namespace

TEST_CASE("Layers of every kind compute, by autograd and by hand, what a plain composition does", "[runtime][layers]") {
  std::set<std::string_view> seen = {"dropout"};  // which is random
  for (const Case& one : cases()) {
    INFO(to_text(one.layer));
    seen.insert(one.layer.kind->name);
    const at::Tensor gradient = normal({kRows, output_numbers(one.layer)}, 2);
    const Results expected = with_gradients(one.layer, gradient, one.by_hand);
    check_equal(with_gradients(one.layer, gradient,
                               [&](const at::Tensor& x, Parameters parameters) {
                                 return forward_layers(std::span(&one.layer, 1), x, parameters);
                               }),
                expected);
    const c10::InferenceMode as_a_stage;
    check_equal(ByPipeline(one.layer).run(one.layer, gradient.clone()), expected);
  }
  for (const LayerKind* kind : layer_kinds()) {
    INFO(kind->name);
    CHECK(seen.contains(kind->name));
  }
}

namespace {

/// Of half precision: beside the largest number of the tensor.
bool close_in_half(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor difference = a.to(at::kFloat) - b.to(at::kFloat);
  return a.scalar_type() == b.scalar_type() &&
         difference.abs().max().item<double>() <= .02 * b.to(at::kFloat).abs().max().item<double>();
}

/// By autograd under autocast. `x`: leaf.
Results under_autocast(const Layer& layer, Dtype dtype, at::Tensor x, const at::Tensor& gradient) {
  std::vector<at::Tensor> parameters = parameters_of(layer), inputs;
  if (x.is_floating_point()) inputs.push_back(x.requires_grad_(true));
  for (at::Tensor& parameter : parameters) inputs.push_back(parameter.requires_grad_(true));
  at::Tensor result;
  {
    const Autocast autocast(dtype, at::kCPU);
    result = forward_layers(std::span(&layer, 1), x, parameters);
  }
  return {result.detach(), torch::autograd::grad({result}, inputs, {gradient.to(result.scalar_type())})};
}

}  // namespace

TEST_CASE("Layers of every kind compute by hand what autograd does under autocast, in its types", "[runtime][layers]") {
  for (const Dtype dtype : {Dtype::amp_bf16, Dtype::amp_fp16}) {
    for (const Case& one : cases()) {
      for (const std::int64_t number_bytes : {4, 2}) {
        INFO(to_text(one.layer) << " " << to_string(dtype) << ", input of " << number_bytes << " bytes");
        at::Tensor x = input_of(one.layer);
        if (!x.is_floating_point() && number_bytes == 2) continue;
        if (x.is_floating_point()) x = x.to(number_type(dtype, number_bytes));
        const at::Tensor gradient = normal({kRows, output_numbers(one.layer)}, 2);
        const Results expected = under_autocast(one.layer, dtype, x, gradient);
        CHECK(expected.result.element_size() == result_number_bytes(one.layer, dtype, number_bytes));
        const c10::InferenceMode as_a_stage;
        const Results results =
            ByPipeline(one.layer, dtype, number_bytes).run(one.layer, gradient.to(expected.result.scalar_type()));
        CHECK(close_in_half(results.result, expected.result));
        REQUIRE(results.gradients.size() == expected.gradients.size());
        for (std::size_t i = 0; i < results.gradients.size(); ++i) {
          CAPTURE(i);
          CHECK(close_in_half(results.gradients[i], expected.gradients[i]));
        }
      }
    }
  }
}

TEST_CASE("Dropout of a pipeline is drawn anew for each forward, and alike where one is done again",
          "[runtime][layers]") {
  const c10::InferenceMode as_a_stage;
  const Layer layer = layer_of("dropout", {1000, 25});
  MatrixProducts products(at::kCPU);
  const auto dropout = make_pipeline_layer({layer, 3, 7, at::kCPU, {}, {}, products, products});
  const at::Tensor x = at::ones({4, 1000});
  const auto forward = [&](std::uint64_t draw, at::Tensor& mask) {
    at::Tensor result = at::empty_like(x);
    const std::vector<at::Tensor> kept = {mask};
    dropout->forward({x, result, kept, draw});
    return result;
  };
  at::Tensor mask = at::empty({4000}), other = at::empty({4000});
  const at::Tensor result = forward(5, mask);
  CHECK(at::equal(result, forward(5, other)));
  CHECK_FALSE(at::equal(result, forward(6, other)));
  CHECK((result == 0).sum().item<double>() / 4000 == Approx(.25).margin(.03));
  CHECK(result.max().item<float>() == Approx(1 / .75f));
  at::Tensor gradient = x.clone(), of_input = at::empty_like(x);
  const std::vector<at::Tensor> kept = {mask};
  dropout->input_gradient({x, result, kept, gradient, gradient, x}, of_input);
  CHECK(at::equal(of_input, result));
}

TEST_CASE("Parameters of a block are drawn apart, embeddings as GPT-2's", "[runtime][layers]") {
  const Layer block = tiny_llama().layers[1];
  const std::vector<at::Tensor> parameters = make_parameters(block, 1, at::kCPU, 7);
  const std::vector<ParameterTensor> shapes = parameter_tensors(block);
  REQUIRE(parameters.size() == shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) CHECK(parameters[i].sizes() == at::IntArrayRef(shapes[i].shape));
  CHECK_FALSE(at::equal(parameters[2], parameters[3]));  // of keys and of values
  CHECK(at::equal(parameters[0], at::ones({kTinyFeatures})));
  CHECK(parameters[1].abs().max().item<double>() <= .25);
  const at::Tensor embedding = make_parameters(layer_of("embedding", {500, 20, 4}), 0, at::kCPU, 7).front();
  CHECK(embedding.std().item<double>() == Approx(.02).epsilon(.05));
}
