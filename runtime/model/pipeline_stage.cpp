#include "runtime/model/pipeline_stage.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "runtime/measure/stream_time.hpp"
#include "runtime/model/initial_values.hpp"

namespace pdl {
namespace {

// PyTorch's defaults of torch.optim.Adam.
constexpr double kAdamBeta1 = 0.9;
constexpr double kAdamBeta2 = 0.999;
constexpr double kAdamEpsilon = 1e-8;

/// A second stream is taken where it makes a backward at least 1 % faster.
constexpr double kLeastGain = 0.99;

bool splits_backward(const Plan& plan) {
  return std::any_of(plan.graph.works.begin(), plan.graph.works.end(),
                     [](const Work& work) { return work.kind == TaskKind::backward_weight; });
}

/// The first `rows` rows of width `width` of a flat buffer, contiguous.
at::Tensor rows_of(const at::Tensor& flat, std::int64_t rows, std::int64_t width) {
  return flat.narrow(0, 0, rows * width).view({rows, width});
}

}  // namespace

PipelineStage::PipelineStage(const Plan& plan, int stage, at::Device device, const RuntimeOptions& options)
    : device_(device),
      products_(device),
      weight_products_(device),
      side_(device),
      stage_(stage),
      first_(stage == 0),
      last_(stage + 1 == static_cast<int>(plan.stages.size())),
      first_layer_(plan.stages[stage].first_layer),
      optimizer_(plan.spec.optimizer),
      learning_rate_(options.learning_rate) {
  const c10::InferenceMode without_autograd;
  const auto begin = plan.spec.model.layers.begin() + first_layer_;
  shapes_.assign(begin, begin + plan.stages[stage].layer_count);
  if (last_) {
    loss_scale_ = 2 / (static_cast<double>(plan.spec.batch) * static_cast<double>(shapes_.back().out_features));
  }
  create_parameters(plan, options);
  create_buffers(plan, options);
  tune_products(plan);
  tune_backward();
}

at::Tensor PipelineStage::empty(at::IntArrayRef sizes) const {
  return at::empty(sizes, at::TensorOptions().device(device_).dtype(at::kFloat));
}

void PipelineStage::create_parameters(const Plan&, const RuntimeOptions& options) {
  for (std::size_t l = 0; l < shapes_.size(); ++l) {
    const auto [in, out] = shapes_[l];
    LayerTensors layer{empty({out, in}), {}, empty({out}), empty({out, in}), empty({out})};
    layer.weight_transposed = layer.weight.t();
    initialise_layer(layer.weight, layer.bias, first_layer_ + static_cast<std::int64_t>(l), options.seed);
    parameters_.insert(parameters_.end(), {layer.weight, layer.bias});
    gradients_.insert(gradients_.end(), {layer.weight_gradient, layer.bias_gradient});
    layers_.push_back(std::move(layer));
  }
  if (optimizer_ != Optimizer::adam) return;
  for (const at::Tensor& parameter : parameters_) {
    first_moments_.push_back(at::zeros_like(parameter));
    second_moments_.push_back(at::zeros_like(parameter));
    step_counts_.push_back(at::zeros({}, parameter.options()));
  }
}

void PipelineStage::create_buffers(const Plan& plan, const RuntimeOptions& options) {
  const Stage& stage = plan.stages[stage_];
  const std::vector<std::int64_t>& rows = plan.microbatch_rows;
  const std::int64_t most_rows = *std::max_element(rows.begin(), rows.end());
  const std::size_t layers = shapes_.size();
  const bool split = splits_backward(plan);

  at::Tensor input, target;
  if (first_) input = make_input(plan.spec.batch, shapes_.front().in_features, device_, options.seed);
  if (last_) {
    target = make_target(plan.spec.batch, shapes_.back().out_features, device_, options.seed);
    error_norms_ = at::zeros({static_cast<std::int64_t>(rows.size())}, target.options());
  }
  const at::Tensor ones = at::ones({most_rows}, at::TensorOptions().device(device_).dtype(at::kFloat));

  // Flat buffers, [slot][layer]. Gradients that live only within one task are shared by all slots.
  struct Slot {
    at::Tensor input;
    std::vector<at::Tensor> outputs, gradients;
    at::Tensor input_gradient;
  };
  std::vector<at::Tensor> within_task(layers);
  for (std::size_t l = 0; !split && l < layers; ++l) {
    if (l + 1 < layers || last_) within_task[l] = empty({most_rows * shapes_[l].out_features});
  }

  std::vector<Slot> slots(static_cast<std::size_t>(stage.slots));
  for (Slot& slot : slots) {
    if (!first_) slot.input = empty({most_rows * shapes_.front().in_features});
    if (!first_) slot.input_gradient = empty({most_rows * shapes_.front().in_features});
    for (std::size_t l = 0; l < layers; ++l) {
      const std::int64_t numbers = most_rows * shapes_[l].out_features;
      slot.outputs.push_back(empty({numbers}));
      slot.gradients.push_back(within_task[l].defined() ? within_task[l] : empty({numbers}));
    }
  }

  std::int64_t offset = 0;
  for (std::size_t m = 0; m < rows.size(); ++m) {
    const Slot& slot = slots[m % slots.size()];
    MicrobatchViews views;
    const std::int64_t in = shapes_.front().in_features;
    views.activations.push_back(first_ ? input.narrow(0, offset, rows[m]) : rows_of(slot.input, rows[m], in));
    if (!first_) views.input_gradient = rows_of(slot.input_gradient, rows[m], in);
    for (std::size_t l = 0; l < layers; ++l) {
      views.activations.push_back(rows_of(slot.outputs[l], rows[m], shapes_[l].out_features));
      views.gradients.push_back(rows_of(slot.gradients[l], rows[m], shapes_[l].out_features));
      views.gradients_transposed.push_back(views.gradients.back().t());
    }
    views.ones = ones.narrow(0, 0, rows[m]);
    if (last_) {
      views.target = target.narrow(0, offset, rows[m]);
      views.error_norm = error_norms_.select(0, static_cast<std::int64_t>(m));
    }
    views_.push_back(std::move(views));
    offset += rows[m];
  }
}

MatrixProduct PipelineStage::forward_product(MicrobatchViews& views, std::size_t layer) {
  return {views.activations[layer + 1], views.activations[layer], layers_[layer].weight_transposed, 1, 0, layers_[layer].bias};
}

MatrixProduct PipelineStage::input_gradient_product(MicrobatchViews& views, std::size_t layer) {
  at::Tensor& gradient = layer == 0 ? views.input_gradient : views.gradients[layer - 1];
  return {gradient, views.gradients[layer], layers_[layer].weight, alpha(layer), 0, no_bias_};
}

MatrixProduct PipelineStage::weight_gradient_product(MicrobatchViews& views, std::size_t layer, bool accumulate) {
  return {layers_[layer].weight_gradient, views.gradients_transposed[layer], views.activations[layer], alpha(layer),
          accumulate ? 1.0 : 0.0, no_bias_};
}

void PipelineStage::tune_products(const Plan& plan) {
  // Micro-batches are of at most two sizes: all but the last are equal.
  const std::size_t count = plan.microbatch_rows.size();
  for (const std::size_t m : {std::size_t{0}, count - 1}) {
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      products_.tune(forward_product(views_[m], l));
      if (l > 0 || !first_) products_.tune(input_gradient_product(views_[m], l));
      weight_products_.tune(weight_gradient_product(views_[m], l, false));
      if (count > 1) weight_products_.tune(weight_gradient_product(views_[m], l, true));
    }
  }
}

void PipelineStage::tune_backward() {
  // By rows, width, layers, and whether the first layer has an input gradient: stages that are alike run alike.
  using Kind = std::tuple<std::int64_t, std::int64_t, std::size_t, bool>;
  static std::mutex mutex;
  static std::map<Kind, bool> chosen;
  if (!device_.is_cuda() || (layers_.size() == 1 && first_)) return;
  const Kind kind{views_[0].activations.back().size(0), shapes_.back().out_features, layers_.size(), first_};
  const std::lock_guard lock(mutex);
  if (!chosen.contains(kind)) {
    const double in_turn_ms = stream_time_ms([&] { backward(0, true); });
    weights_on_side_ = true;
    chosen[kind] = stream_time_ms([&] { backward(0, true); }) < kLeastGain * in_turn_ms;
  }
  weights_on_side_ = chosen[kind];
}

void PipelineStage::forward(int microbatch) {
  const c10::InferenceMode without_autograd;
  MicrobatchViews& views = views_[microbatch];
  for (std::size_t l = 0; l < layers_.size(); ++l) products_.run(forward_product(views, l));
}

void PipelineStage::loss_gradient(int microbatch) {
  if (!last_) return;
  MicrobatchViews& views = views_[microbatch];
  at::sub_out(views.gradients.back(), views.activations.back(), views.target);
  at::linalg_vector_norm_out(views.error_norm, views.gradients.back());
}

void PipelineStage::relu_backward(MicrobatchViews& views, std::size_t layer) {
  at::Tensor& gradient = views.gradients[layer];
  at::threshold_backward_out(gradient, gradient, views.activations[layer + 1], 0);
}

void PipelineStage::layer_input_gradient(MicrobatchViews& views, std::size_t layer) {
  if (layer == 0 && first_) return;
  products_.run(input_gradient_product(views, layer));
}

void PipelineStage::layer_weight_gradient(MicrobatchViews& views, std::size_t layer, bool accumulate) {
  weight_products_.run(weight_gradient_product(views, layer, accumulate));
  LayerTensors& tensors = layers_[layer];
  at::addmv_out(tensors.bias_gradient, tensors.bias_gradient, views.gradients_transposed[layer], views.ones,
                accumulate ? 1 : 0, alpha(layer));
}

void PipelineStage::backward(int microbatch, bool accumulate) {
  const c10::InferenceMode without_autograd;
  MicrobatchViews& views = views_[microbatch];
  loss_gradient(microbatch);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    relu_backward(views, l);
    const auto weight_gradient = [&] { layer_weight_gradient(views, l, accumulate); };
    if (weights_on_side_) side_.run(weight_gradient);
    layer_input_gradient(views, l);
    if (!weights_on_side_) weight_gradient();
  }
  if (weights_on_side_) side_.join();
}

void PipelineStage::backward_input(int microbatch) {
  const c10::InferenceMode without_autograd;
  MicrobatchViews& views = views_[microbatch];
  loss_gradient(microbatch);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    relu_backward(views, l);
    layer_input_gradient(views, l);
  }
}

void PipelineStage::backward_weight(int microbatch, bool accumulate) {
  const c10::InferenceMode without_autograd;
  for (std::size_t l = layers_.size(); l-- > 0;) layer_weight_gradient(views_[microbatch], l, accumulate);
}

void PipelineStage::optimizer_step() {
  const c10::InferenceMode without_autograd;
  if (optimizer_ == Optimizer::sgd) {
    at::_foreach_add_(parameters_, gradients_, -learning_rate_);
    return;
  }
  at::_foreach_add_(step_counts_, 1);
  at::_fused_adam_(parameters_, gradients_, first_moments_, second_moments_, /*max_exp_avg_sqs=*/{}, step_counts_,
                   learning_rate_, kAdamBeta1, kAdamBeta2, /*weight_decay=*/0, kAdamEpsilon, /*amsgrad=*/false,
                   /*maximize=*/false);
}

double PipelineStage::loss() const {
  const c10::InferenceMode without_autograd;
  const at::Tensor norms = error_norms_.to(at::kCPU).to(at::kDouble);
  return norms.square().sum().item<double>() * loss_scale_ / 2;
}

}  // namespace pdl
