#include "runtime/model/autograd_model.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/model/forward_layer.hpp"
#include "runtime/model/layer_modules.hpp"
#include "sim/model/inner_layers.hpp"
#include "sim/plan/backward_parts.hpp"

namespace pdl {
namespace {

// PyTorch's defaults of torch.optim.Adam.
constexpr double kAdamBeta1 = 0.9;
constexpr double kAdamBeta2 = 0.999;
constexpr double kAdamEpsilon = 1e-8;
constexpr double kAdamWDecay = 1e-2;  // of torch.optim.AdamW

std::vector<Layer> layers_of_stage(const Plan& plan, int stage) {
  const Stage& of = plan.stages[static_cast<std::size_t>(stage)];
  const auto begin = plan.spec.model.layers.begin() + of.first_layer;
  return {begin, begin + of.layer_count};
}

/// Of a plan without recomputation none.
std::vector<bool> run_again_of_stage(const Plan& plan, int stage) {
  if (!plan.spec.recompute) return {};
  const Stage& of = plan.stages[static_cast<std::size_t>(stage)];
  const std::vector<bool> all = layers_run_again(plan);
  const auto begin = all.begin() + of.first_layer;
  return {begin, begin + of.layer_count};
}

bool draws_random_numbers(const Layer& layer) {
  const std::vector<InnerLayer> inner = inner_layers(layer);
  return std::any_of(inner.begin(), inner.end(),
                     [](const InnerLayer& one) { return one.layer.kind->name == "dropout"; });
}

std::vector<at::Tensor> parameters_of_stage(const Plan& plan, int stage, at::Device device, std::uint64_t seed) {
  const Stage& of = plan.stages[static_cast<std::size_t>(stage)];
  std::vector<at::Tensor> parameters;
  for (std::int32_t l = of.first_layer; l < of.first_layer + of.layer_count; ++l) {
    for (at::Tensor& parameter : make_parameters(plan.spec.model.layers[static_cast<std::size_t>(l)], l, device, seed))
      parameters.push_back(parameter.set_requires_grad(true));
  }
  return parameters;
}

}  // namespace

ForeachOptimizer::ForeachOptimizer(std::vector<at::Tensor> parameters, Optimizer kind, double learning_rate)
    : parameters_(std::move(parameters)), kind_(kind), learning_rate_(learning_rate) {
  if (kind_ == Optimizer::sgd) return;
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters_) {
    first_moments_.push_back(at::zeros_like(parameter));
    second_moments_.push_back(at::zeros_like(parameter));
    if (kind_ == Optimizer::adamw_fused)
      step_counts_.push_back(at::zeros({}, parameter.options().requires_grad(false)));
  }
}

void ForeachOptimizer::step() {
  if (parameters_.empty()) return;
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters_.size());
  for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
  switch (kind_) {
    case Optimizer::sgd: return at::_foreach_add_(parameters_, gradients, -learning_rate_);
    case Optimizer::adam: return adam(gradients);
    case Optimizer::adamw: at::_foreach_mul_(parameters_, 1 - learning_rate_ * kAdamWDecay); return adam(gradients);
    case Optimizer::adamw_fused: return fused_adamw(gradients);
  }
}

void ForeachOptimizer::fused_adamw(const std::vector<at::Tensor>& gradients) {
  at::_foreach_add_(step_counts_, 1);
  at::_fused_adamw_(parameters_, gradients, first_moments_, second_moments_, /*max_exp_avg_sqs=*/{}, step_counts_,
                    learning_rate_, kAdamBeta1, kAdamBeta2, kAdamWDecay, kAdamEpsilon, /*amsgrad=*/false,
                    /*maximize=*/false);
}

void ForeachOptimizer::adam(const std::vector<at::Tensor>& gradients) {
  ++steps_;
  at::_foreach_lerp_(first_moments_, gradients, 1 - kAdamBeta1);
  at::_foreach_mul_(second_moments_, kAdamBeta2);
  at::_foreach_addcmul_(second_moments_, gradients, gradients, 1 - kAdamBeta2);
  const double correction1 = 1 - std::pow(kAdamBeta1, static_cast<double>(steps_));
  const double correction2 = 1 - std::pow(kAdamBeta2, static_cast<double>(steps_));
  const std::vector<at::Scalar> denominators(parameters_.size(), std::sqrt(correction2));
  const std::vector<at::Scalar> step_sizes(parameters_.size(), -learning_rate_ / correction1);
  std::vector<at::Tensor> roots = at::_foreach_sqrt(second_moments_);
  at::_foreach_div_(roots, denominators);
  at::_foreach_add_(roots, kAdamEpsilon);
  at::_foreach_addcdiv_(parameters_, first_moments_, roots, step_sizes);
}

AutogradStage::AutogradStage(const Plan& plan, int stage, at::Device device, const RuntimeOptions& options)
    : device_(device),
      first_layer_(plan.stages[static_cast<std::size_t>(stage)].first_layer),
      layers_(layers_of_stage(plan, stage)),
      run_again_(run_again_of_stage(plan, stage)),
      parameters_(parameters_of_stage(plan, stage, device, options.seed)),
      optimizer_(parameters_, plan.spec.optimizer, options.learning_rate) {}

at::Tensor AutogradStage::forward(at::Tensor x, RecomputationWatcher* watcher) {
  if (run_again_.empty()) return forward_layers(layers_, std::move(x), parameters_);
  return forward_layers(layers_, std::move(x), parameters_,
                        [&](std::size_t l, at::Tensor input, std::span<const at::Tensor> own, const at::Tensor& tied) {
                          return run(l, std::move(input), own, tied, watcher);
                        });
}

at::Tensor AutogradStage::run(std::size_t place, at::Tensor x, std::span<const at::Tensor> parameters,
                              const at::Tensor& tied, RecomputationWatcher* watcher) const {
  const Layer& layer = layers_[place];
  if (!run_again_[place]) return forward_layer(layer, std::move(x), parameters, tied);
  const std::vector<at::Tensor> own(parameters.begin(), parameters.end());
  return checkpointed([layer, own](const at::Tensor& input) { return forward_layer(layer, input, own, {}); }, x,
                      {first_layer_ + static_cast<int>(place), draws_random_numbers(layer), watcher});
}

void AutogradStage::zero_grad() {
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

std::vector<at::Tensor> AutogradStage::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
  return gradients;
}

namespace {

/// cross_entropy in fp32, as autocast of GPUs has it; that of the CPU leaves the type as it is.
at::Tensor mean_loss(const at::Tensor& output, const at::Tensor& target) {
  if (target.is_floating_point()) return torch::mse_loss(output, target);
  const at::Tensor logits = output.view({target.numel(), -1});
  return torch::cross_entropy_loss(logits.is_cuda() ? logits : logits.to(at::kFloat), target.reshape({-1}));
}

}  // namespace

at::Tensor weighted_loss(const at::Tensor& output, const at::Tensor& target, double weight) {
  at::Tensor loss = mean_loss(output, target);
  return weight == 1 ? loss : loss * weight;
}

at::Tensor microbatch_loss(const at::Tensor& output, const at::Tensor& target, std::int64_t batch,
                           std::int64_t rounds) {
  return weighted_loss(output, target, static_cast<double>(output.size(0)) / static_cast<double>(batch * rounds));
}

double sum_of_losses(const std::vector<at::Tensor>& losses) {
  double sum = 0;
  for (const at::Tensor& loss : losses) {
    sum += loss.defined() ? loss.item<double>() : std::numeric_limits<double>::quiet_NaN();
  }
  return sum;
}

std::vector<at::Tensor> copies_on_host(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : parameters) {
    copies.push_back(parameter.detach().to(at::kCPU, parameter.scalar_type(), false, /*copy=*/true));
  }
  return copies;
}

}  // namespace pdl
