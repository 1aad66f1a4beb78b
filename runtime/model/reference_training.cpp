#include "runtime/model/reference_training.hpp"

#include <ATen/ATen.h>
#include <torch/autograd.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/model/autocast.hpp"
#include "runtime/model/autograd_model.hpp"
#include "runtime/model/initial_values.hpp"
#include "runtime/model/layer_modules.hpp"
#include "sim/model/inner_layers.hpp"

namespace pdl {
namespace {

// A unit in the last place of fp32, relative.
constexpr double kUnit = 1.0 / (1 << 23);
// Products of other shapes add in another order: some units of fp32, or of TF32's 10 bits.
constexpr double kTolerance = 2e-3;
constexpr double kToleranceTf32 = 5e-2;

std::vector<at::Tensor> initial_parameters(const RunSpec& spec, std::uint64_t seed, at::Device device) {
  std::vector<at::Tensor> parameters;
  for (std::size_t l = 0; l < spec.model.layers.size(); ++l) {
    for (at::Tensor& parameter : make_parameters(spec.model.layers[l], static_cast<std::int64_t>(l), device, seed))
      parameters.push_back(std::move(parameter));
  }
  return parameters;
}

/// Where the parameters of these layers, one after another, are among those of the model; of all where it is empty.
std::vector<std::size_t> places_of(const Model& model, const std::vector<std::int64_t>& layers) {
  std::vector<std::vector<std::size_t>> of_layer;
  std::size_t next = 0;
  for (const Layer& layer : model.layers) {
    of_layer.emplace_back(parameter_tensors(layer).size());
    std::iota(of_layer.back().begin(), of_layer.back().end(), next);
    next += of_layer.back().size();
  }
  std::vector<std::size_t> places;
  for (const std::int64_t layer : layers) {
    const std::vector<std::size_t>& own = of_layer.at(static_cast<std::size_t>(layer));
    places.insert(places.end(), own.begin(), own.end());
  }
  if (!layers.empty()) return places;
  places.resize(next);
  std::iota(places.begin(), places.end(), std::size_t{0});
  return places;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const RunSpec& spec, double learning_rate,
                                                        const std::vector<at::Tensor>& parameters) {
  switch (spec.optimizer) {
    case Optimizer::sgd: break;
    case Optimizer::adam:
      return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(learning_rate));
    case Optimizer::adamw:
    case Optimizer::adamw_fused:
      return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(learning_rate));
  }
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(learning_rate));
}

class PlainTraining {
 public:
  PlainTraining(const RunSpec& spec, const RuntimeOptions& options, at::Device device, Reference in = Reference::fp32)
      : dtype_(in == Reference::autocast ? spec.dtype : Dtype::fp32),
        layers_(spec.model.layers),
        parameters_(initial_parameters(spec, options.seed, device)),
        batch_(make_batch(spec.model, spec.batch, device, options.seed)) {
    for (const at::Tensor& parameter : parameters_) parameter.requires_grad_(true);
    optimizer_ = make_optimizer(spec, options.learning_rate, parameters_);
  }

  /// The loss, of the parameters before the step. With `skip` they stay as they are.
  double step(bool skip) {
    optimizer_->zero_grad();
    const at::Tensor loss = this->loss();
    if (!skip) {
      loss.backward();
      optimizer_->step();
    }
    return loss.item<double>();
  }

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  at::Tensor loss() const {
    const Autocast autocast(dtype_, batch_.target.device().type());
    return weighted_loss(forward_layers(layers_, batch_.input, parameters_), batch_.target, 1);
  }

  Dtype dtype_;
  std::vector<Layer> layers_;
  std::vector<at::Tensor> parameters_;
  Batch batch_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

/// Euclidean.
double length(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).norm().item<double>();
}

}  // namespace

std::vector<at::Tensor> train_reference(const RunSpec& spec, const RuntimeOptions& options, at::Device device,
                                        int steps) {
  PlainTraining training(spec, options, device);
  for (int step = 0; step < steps; ++step) static_cast<void>(training.step(/*skip=*/false));
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : training.parameters()) result.push_back(parameter.detach().to(at::kCPU));
  return result;
}

std::vector<double> reference_losses(const RunSpec& spec, const RuntimeOptions& options, at::Device device, int steps,
                                     const std::vector<std::int64_t>& skipped, Reference in) {
  PlainTraining training(spec, options, device, in);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    losses.push_back(training.step(std::find(skipped.begin(), skipped.end(), step) != skipped.end()));
  }
  return losses;
}

double clear_learning_rate(const RunSpec& spec, RuntimeOptions options, at::Device device, int steps) {
  constexpr double kFactor = 4;
  constexpr double kSmallest = 1e-9, kLargest = 1e9;
  const auto falls = [&](double rate) {
    options.learning_rate = rate;
    const std::vector<double> losses = reference_losses(spec, options, device, steps, {});
    return std::adjacent_find(losses.begin(), losses.end(), [](double a, double b) { return !(b < a); }) ==
           losses.end();
  };
  double rate = RuntimeOptions().learning_rate;
  while (rate > kSmallest && !falls(rate)) rate /= kFactor;
  while (rate < kLargest && falls(kFactor * rate)) rate *= kFactor;
  if (rate <= kSmallest || rate >= kLargest) {
    throw std::runtime_error("no learning rate was found with which the loss of plain training falls in each of " +
                             std::to_string(steps) + " steps: mixed precision cannot be checked");
  }
  return rate / kFactor;
}

bool has_dropout(const Model& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const Layer& layer) {
    const std::vector<InnerLayer> inner = inner_layers(layer);
    return std::any_of(inner.begin(), inner.end(),
                       [](const InnerLayer& one) { return one.layer.kind->name == "dropout"; });
  });
}

LossAgreement compare_losses(const std::vector<double>& losses, const std::vector<double>& expected, double tolerance) {
  LossAgreement agreement;
  const double way = std::abs(expected.front() - expected.back());
  agreement.fall = way / std::abs(expected.front());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(losses.at(i) - expected[i]) / way;
    // A loss that is no number is no agreement either.
    if (!(difference <= agreement.relative_difference)) agreement.relative_difference = difference;
  }
  agreement.equal = agreement.relative_difference <= tolerance;
  return agreement;
}

Agreement compare_parameters(const RunSpec& spec, const RuntimeOptions& options, at::Device device,
                             const std::vector<std::int64_t>& layers, const std::vector<at::Tensor>& parameters,
                             const std::vector<at::Tensor>& expected) {
  const double tolerance = spec.dtype == Dtype::tf32 ? kToleranceTf32 : kTolerance;
  const std::vector<at::Tensor> start = initial_parameters(spec, options.seed, device);
  const std::vector<std::size_t> places = places_of(spec.model, layers);
  Agreement agreement;
  agreement.smallest_change = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t e = places.at(i);
    const at::Tensor difference = parameters[i] - expected[e];
    const double change = length(expected[e] - start[e].to(at::kCPU));
    const double rounding = kUnit * length(expected[e]);
    const double beyond_rounding = std::max(0.0, length(difference) - rounding);
    agreement.largest_difference = std::max(agreement.largest_difference, difference.abs().max().item<double>());
    agreement.smallest_change = std::min(agreement.smallest_change, change / length(start[e]));
    if (beyond_rounding > 0) {
      agreement.relative_difference = std::max(agreement.relative_difference, beyond_rounding / change);
    }
    // A difference that is no number is no agreement either.
    if (!std::isfinite(length(difference))) agreement.relative_difference = std::numeric_limits<double>::infinity();
  }
  agreement.equal = agreement.relative_difference <= tolerance;
  return agreement;
}

}  // namespace pdl
