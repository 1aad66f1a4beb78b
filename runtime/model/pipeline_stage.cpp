#include "runtime/model/pipeline_stage.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "runtime/device/stream_time.hpp"
#include "runtime/model/autocast.hpp"
#include "runtime/model/initial_values.hpp"
#include "sim/plan/second_stream.hpp"

namespace pdl {
namespace {

// PyTorch's defaults of torch.optim.Adam.
constexpr double kAdamBeta1 = 0.9;
constexpr double kAdamBeta2 = 0.999;
constexpr double kAdamEpsilon = 1e-8;
constexpr double kAdamWDecay = 1e-2;  // of torch.optim.AdamW

/// A second stream is taken where it makes a backward at least 1 % faster.
constexpr double kLeastGain = 0.99;

bool has_work(const Plan& plan, TaskKind kind) {
  return std::any_of(plan.graph.works.begin(), plan.graph.works.end(),
                     [&](const Work& work) { return work.kind == kind; });
}

bool splits_backward(const Plan& plan) {
  return has_work(plan, TaskKind::backward_weight);
}

/// The samples of one replica out of those of all; the memory of the others' is given back.
at::Tensor slice_of_replica(const Plan& plan, std::int32_t replica, const at::Tensor& batch) {
  if (plan.parallel.mesh.dp == 1) return batch;
  const std::int64_t rows = plan.replica_rows.front();
  return batch.narrow(0, replica * rows, rows).clone();
}

/// Tensors of a pool begin at multiples of this many bytes, as blocks of memory do.
constexpr std::int64_t kAlignment = 512;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t ones_of_a_row(const std::vector<Layer>& layers) {
  std::int64_t most = 1;
  for (const Layer& layer : layers) most = std::max(most, pipeline_tensors(layer, {1}).ones_of_a_row);
  return most;
}

/// The first `rows` rows of width `width` of a flat buffer, contiguous.
at::Tensor rows_of(const at::Tensor& flat, std::int64_t rows, std::int64_t width) {
  return flat.narrow(0, 0, rows * width).view({rows, width});
}

}  // namespace

PipelineStage::PipelineStage(const Plan& plan, int stage, at::Device device, const RuntimeOptions& options,
                             const PipelineStage* before)
    : device_(device),
      dtype_(plan.spec.dtype),
      kernels_(before ? before->kernels_ : std::make_shared<Kernels>(device, dtype_)),
      stage_(stage),
      first_(is_first_stage(plan.stages, static_cast<std::size_t>(stage))),
      last_(is_last_stage(plan.stages, static_cast<std::size_t>(stage))),
      arrives_(!first_ && !is_local_boundary(plan.stages, static_cast<std::size_t>(stage))),
      first_layer_(plan.stages[stage].first_layer),
      loss_(plan.spec.model.loss),
      replicas_(plan.parallel.mesh.dp),
      optimizer_(plan.spec.optimizer),
      learning_rate_(options.learning_rate) {
  const c10::InferenceMode without_autograd;
  const bool joined = !first_ && !arrives_;
  TORCH_CHECK(!joined || (before && before->stage_ + 1 == stage_), "stage ", stage_ - 1,
              " must be created before stage ", stage_);
  const auto begin = plan.spec.model.layers.begin() + first_layer_;
  shapes_.assign(begin, begin + plan.stages[stage].layer_count);
  const std::vector<std::int64_t> of_model = activation_number_bytes(plan.spec.model, dtype_);
  number_bytes_.assign(of_model.begin() + first_layer_, of_model.begin() + first_layer_ + std::ssize(shapes_) + 1);
  if (last_) {
    const std::int64_t rows = plan.replica_rows.front() * plan.spec.accum;
    const LossRows of = loss_rows(plan.spec.model);
    const std::int64_t means_of = rows * (loss_ == Loss::mse ? of.width : of.rows);
    loss_scale_ = (loss_ == Loss::mse ? 2.0 : 1.0) / static_cast<double>(means_of);
  }
  create_parameters(options, first_ && last_ && is_tied(plan.spec.model));
  cast_parameters();
  create_views(plan, options, joined ? before : nullptr);
  tune_products(plan);
  tune_backward(plan);
}

at::Tensor PipelineStage::empty(std::int64_t numbers, std::int64_t number_bytes) const {
  const at::ScalarType type = number_type(dtype_, number_bytes);
  return at::empty({numbers}, at::TensorOptions().device(device_).dtype(type));
}

std::int64_t PipelineStage::inner_gradient_bytes(std::size_t layer, std::int64_t rows) const {
  std::int64_t sum = 0;
  for (const TensorSize& tensor : pipeline_tensors(shapes_[layer], case_of(layer, rows)).gradients)
    sum += aligned(tensor.bytes());
  return sum;
}

std::vector<at::Tensor> PipelineStage::inner_gradients_of(const at::Tensor& pool, std::size_t layer,
                                                          std::int64_t rows) const {
  std::vector<at::Tensor> gradients;
  std::int64_t first = 0;
  for (const TensorSize& tensor : pipeline_tensors(shapes_[layer], case_of(layer, rows)).gradients) {
    gradients.push_back(pool.narrow(0, first, tensor.bytes()).view(number_type(dtype_, tensor.number_bytes)));
    first += aligned(tensor.bytes());
  }
  return gradients;
}

void PipelineStage::create_parameters(const RuntimeOptions& options, bool tied) {
  for (std::size_t l = 0; l < shapes_.size(); ++l) {
    const std::int64_t index = first_layer_ + static_cast<std::int64_t>(l);
    PipelineLayerParts parts{shapes_[l],
                             index,
                             options.seed,
                             device_,
                             make_parameters(shapes_[l], index, device_, options.seed),
                             {},
                             kernels_->products,
                             kernels_->weight_products};
    if (tied && l > 0) parts.tied_weight = parameters_.front();
    if (tied && l > 0) parts.tied_gradient = gradients_.front();
    parts.embedding_is_tied = tied && l == 0;
    parts.dtype = dtype_;
    parts.input_number_bytes = number_bytes_[l];
    for (const at::Tensor& parameter : parts.parameters) parts.gradients.push_back(at::empty_like(parameter));
    parameters_.insert(parameters_.end(), parts.parameters.begin(), parts.parameters.end());
    gradients_.insert(gradients_.end(), parts.gradients.begin(), parts.gradients.end());
    layers_.push_back(make_pipeline_layer(parts));
    trained_.push_back(!parts.parameters.empty());
  }
  if (optimizer_ == Optimizer::sgd) return;
  for (const at::Tensor& parameter : parameters_) {
    first_moments_.push_back(at::zeros_like(parameter));
    second_moments_.push_back(at::zeros_like(parameter));
    step_counts_.push_back(at::zeros({}, parameter.options()));
  }
}

std::vector<PipelineStage::Slot> PipelineStage::create_slots(const Plan& plan) const {
  const std::int64_t most_rows = *std::max_element(plan.microbatch_rows.begin(), plan.microbatch_rows.end());
  const bool split = splits_backward(plan);
  const bool recomputes = plan.spec.recompute;
  const std::size_t last_layer = shapes_.size() - 1;
  const auto output_of = [&](std::size_t l) {
    return empty(most_rows * output_numbers(shapes_[l]), number_bytes_[l + 1]);
  };
  const auto input = [&] { return empty(most_rows * input_numbers(shapes_.front()), number_bytes_.front()); };
  const auto kept_of = [&](std::size_t l) {
    std::vector<at::Tensor> kept;
    for (const TensorSize& tensor : pipeline_tensors(shapes_[l], case_of(l, most_rows)).kept)
      kept.push_back(empty(tensor.numbers, tensor.number_bytes));
    return kept;
  };

  // What no slot has for itself.
  Slot shared;
  shared.outputs.resize(shapes_.size());
  shared.gradients.resize(shapes_.size());
  shared.layer_kept.resize(shapes_.size());
  shared.inner_gradients.resize(shapes_.size());
  if (!split) share_inner_gradients(shared.inner_gradients, most_rows);
  for (std::size_t l = 0; l <= last_layer; ++l) {
    if (recomputes && l < last_layer) shared.outputs[l] = output_of(l);
    if (recomputes) shared.layer_kept[l] = kept_of(l);
    const bool arrives = l == last_layer && !last_;  // from the stage after
    if (!split && !arrives) shared.gradients[l] = output_of(l);
  }
  if (recomputes) shared.recomputed_output = output_of(last_layer);

  std::vector<Slot> slots(static_cast<std::size_t>(plan.stages[stage_].slots), shared);
  for (Slot& slot : slots) {
    if (arrives_) slot.input = input();
    if (arrives_) slot.input_gradient = input();
    for (std::size_t l = 0; l <= last_layer; ++l) {
      if (!slot.outputs[l].defined()) slot.outputs[l] = output_of(l);
      if (!recomputes) slot.layer_kept[l] = kept_of(l);
      if (split) slot.inner_gradients[l] = pool_of(inner_gradient_bytes(l, most_rows));
      if (!slot.gradients[l].defined()) slot.gradients[l] = output_of(l);
    }
  }
  return slots;
}

/// One for all layers: what is inside of a layer is done when that of the next one begins.
void PipelineStage::share_inner_gradients(std::vector<at::Tensor>& by_layer, std::int64_t most_rows) const {
  std::int64_t most = 0;
  for (std::size_t l = 0; l < shapes_.size(); ++l) most = std::max(most, inner_gradient_bytes(l, most_rows));
  std::fill(by_layer.begin(), by_layer.end(), pool_of(most));
}

at::Tensor PipelineStage::pool_of(std::int64_t bytes) const {
  return bytes > 0 ? at::empty({bytes}, at::TensorOptions().device(device_).dtype(at::kByte)) : at::Tensor();
}

void PipelineStage::create_views(const Plan& plan, const RuntimeOptions& options, const PipelineStage* lower) {
  const std::vector<std::int64_t>& rows = plan.microbatch_rows;
  const std::int32_t replica = plan.stages[static_cast<std::size_t>(stage_)].replica;
  at::Tensor input, target;
  if (first_)
    input = slice_of_replica(plan, replica, make_input(plan.spec.model, plan.spec.batch, device_, options.seed));
  if (last_) {
    target = slice_of_replica(plan, replica, make_target(plan.spec.model, plan.spec.batch, device_, options.seed));
    errors_ = empty(static_cast<std::int64_t>(rows.size())).zero_();
  }
  const at::Tensor ones = empty(*std::max_element(rows.begin(), rows.end()) * ones_of_a_row(shapes_)).fill_(1);
  const std::vector<Slot> slots = create_slots(plan);

  const std::size_t in_round = rows.size() / static_cast<std::size_t>(plan.spec.accum);
  std::int64_t offset = 0;
  for (std::size_t m = 0; m < rows.size(); ++m) {
    if (m % in_round == 0) offset = 0;  // every round has the same samples
    const Slot& slot = slots[static_cast<std::size_t>(plan.slots[static_cast<std::size_t>(stage_)][m])];
    const std::int64_t in = input_numbers(shapes_.front());
    MicrobatchViews views;
    if (first_) {
      views.activations.push_back(input.narrow(0, offset, rows[m]));
    } else if (lower) {
      views.activations.push_back(lower->output(static_cast<int>(m)));
      views.input_gradient = lower->output_gradient(static_cast<int>(m));
    } else {
      views.activations.push_back(rows_of(slot.input, rows[m], in));
      views.input_gradient = rows_of(slot.input_gradient, rows[m], in);
    }
    for (std::size_t l = 0; l < shapes_.size(); ++l) {
      views.activations.push_back(rows_of(slot.outputs[l], rows[m], output_numbers(shapes_[l])));
      views.gradients.push_back(rows_of(slot.gradients[l], rows[m], output_numbers(shapes_[l])));
      views.gradients_transposed.push_back(views.gradients.back().t());
      add_layer(views, l, slot, ones, rows[m]);
    }
    views.kept = views.activations;
    if (slot.recomputed_output.defined())
      views.kept.back() = rows_of(slot.recomputed_output, rows[m], output_numbers(shapes_.back()));
    if (last_) {
      views.target = target.narrow(0, offset, rows[m]);
      views.error = errors_.select(0, static_cast<std::int64_t>(m));
    }
    views_.push_back(std::move(views));
    offset += rows[m];
  }
}

void PipelineStage::add_layer(MicrobatchViews& views, std::size_t layer, const Slot& slot, const at::Tensor& all_ones,
                              std::int64_t rows) const {
  const PipelineTensors tensors = pipeline_tensors(shapes_[layer], case_of(layer, rows));
  std::vector<at::Tensor>& own = views.layer_kept.emplace_back();
  for (std::size_t k = 0; k < tensors.kept.size(); ++k)
    own.push_back(slot.layer_kept[layer][k].narrow(0, 0, tensors.kept[k].numbers));
  views.inner_gradients.push_back(inner_gradients_of(slot.inner_gradients[layer], layer, rows));
  views.ones.push_back(all_ones.narrow(0, 0, rows * tensors.ones_of_a_row));
}

LayerForward PipelineStage::forward_of(int microbatch, std::vector<at::Tensor>& activations, std::size_t layer) {
  const auto draw = static_cast<std::uint64_t>(steps_) * views_.size() + static_cast<std::uint64_t>(microbatch);
  return {activations[layer], activations[layer + 1], views_[microbatch].layer_kept[layer], draw};
}

LayerBackward PipelineStage::backward_of(MicrobatchViews& views, std::size_t layer) const {
  const bool scales = is_loss_layer(layer) && layers_[layer]->takes_factor();
  return {views.kept[layer],
          views.kept[layer + 1],
          views.layer_kept[layer],
          views.gradients[layer],
          views.gradients_transposed[layer],
          views.ones[layer],
          scales ? loss_scale_ : 1,
          views.inner_gradients[layer]};
}

at::Tensor& PipelineStage::input_gradient_of(MicrobatchViews& views, std::size_t layer) {
  return layer == 0 ? views.input_gradient : views.gradients[layer - 1];
}

void PipelineStage::tune_products(const Plan& plan) {
  // Micro-batches are of at most two sizes: all but the last are equal.
  const std::size_t count = plan.microbatch_rows.size();
  for (const int m : {0, static_cast<int>(count) - 1}) {
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      MicrobatchViews& views = views_[m];
      layers_[l]->tune(forward_of(m, views.activations, l), backward_of(views, l), input_gradient_of(views, l),
                       /*accumulates=*/count > 1);
    }
  }
}

void PipelineStage::tune_backward(const Plan& plan) {
  // By rows, layers, and whether the first layer has an input gradient: stages that are alike run alike.
  using Kind = std::tuple<std::int64_t, std::vector<Layer>, bool>;
  static std::mutex mutex;
  static std::map<Kind, bool> chosen;
  if (!device_.is_cuda() || !has_work(plan, TaskKind::backward) || !tries_second_stream(plan, stage_)) return;
  const Kind kind{views_[0].activations.back().size(0), shapes_, first_};
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
  for (std::size_t l = 0; l < layers_.size(); ++l) layers_[l]->forward(forward_of(microbatch, views.activations, l));
}

void PipelineStage::recompute(int microbatch) {
  const c10::InferenceMode without_autograd;
  MicrobatchViews& views = views_[microbatch];
  for (std::size_t l = 0; l < layers_.size(); ++l) layers_[l]->forward(forward_of(microbatch, views.kept, l));
}

void PipelineStage::loss_gradient(int microbatch) {
  if (!last_) return;
  MicrobatchViews& views = views_[microbatch];
  if (is_half()) return loss_ == Loss::mse ? mse_gradient_of_half(views) : cross_entropy_gradient_of_half(views);
  loss_ == Loss::mse ? mse_gradient(views) : cross_entropy_gradient(views);
  if (!layers_.back()->takes_factor()) views.gradients.back().mul_(loss_scale_);
}

void PipelineStage::mse_gradient(MicrobatchViews& views) {
  at::sub_out(views.gradients.back(), views.kept.back(), views.target);
  at::linalg_vector_norm_out(views.error, views.gradients.back());
}

/// The logarithm of the softmax, the loss from it, and the softmax less 1 where the targets are: all in one buffer.
void PipelineStage::cross_entropy_gradient(MicrobatchViews& views) {
  const at::Tensor targets = views.target.reshape({-1, 1});
  at::Tensor gradient = views.gradients.back().view({targets.size(0), -1});
  at::_log_softmax_out(gradient, views.kept.back().view(gradient.sizes()), -1, /*half_to_float=*/false);
  views.error.copy_(gradient.gather(1, targets).sum().neg_());
  gradient.exp_();
  gradient.scatter_(1, targets, -1, "add");
}

void PipelineStage::mse_gradient_of_half(MicrobatchViews& views) const {
  at::Tensor error = views.kept.back().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).sub_(views.target);
  at::linalg_vector_norm_out(views.error, error);
  views.gradients.back().copy_(error.mul_(loss_scale_));
}

void PipelineStage::cross_entropy_gradient_of_half(MicrobatchViews& views) const {
  const at::Tensor targets = views.target.reshape({-1, 1});
  const at::Tensor logits = views.kept.back().view({targets.size(0), -1});
  at::Tensor softmax = at::_log_softmax(logits.to(at::kFloat), -1, /*half_to_float=*/false);
  views.error.copy_(softmax.gather(1, targets).sum().neg_());
  softmax.exp_().scatter_(1, targets, -1, "add").mul_(loss_scale_);
  views.gradients.back().copy_(softmax.view_as(views.gradients.back()));
}

void PipelineStage::layer_input_gradient(MicrobatchViews& views, std::size_t layer) {
  if (layer == 0 && first_) return;
  layers_[layer]->input_gradient(backward_of(views, layer), input_gradient_of(views, layer));
}

void PipelineStage::layer_weight_gradient(MicrobatchViews& views, std::size_t layer, bool accumulate) {
  layers_[layer]->weight_gradient(backward_of(views, layer), accumulate);
}

void PipelineStage::backward(int microbatch, bool accumulate) {
  const c10::InferenceMode without_autograd;
  MicrobatchViews& views = views_[microbatch];
  loss_gradient(microbatch);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    layers_[l]->begin_backward(backward_of(views, l));
    const auto weight_gradient = [&] { layer_weight_gradient(views, l, accumulate); };
    if (trained_[l] && weights_on_side_) kernels_->side.run(weight_gradient);
    layer_input_gradient(views, l);
    if (trained_[l] && !weights_on_side_) weight_gradient();
  }
  if (weights_on_side_) kernels_->side.join();
}

void PipelineStage::backward_input(int microbatch) {
  const c10::InferenceMode without_autograd;
  MicrobatchViews& views = views_[microbatch];
  loss_gradient(microbatch);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    layers_[l]->begin_backward(backward_of(views, l));
    layer_input_gradient(views, l);
  }
}

void PipelineStage::backward_weight(int microbatch, bool accumulate) {
  const c10::InferenceMode without_autograd;
  for (std::size_t l = layers_.size(); l-- > 0;) {
    if (trained_[l]) layer_weight_gradient(views_[microbatch], l, accumulate);
  }
}

void PipelineStage::optimizer_step() {
  const c10::InferenceMode without_autograd;
  ++steps_;
  if (parameters_.empty()) return;
  update_parameters();
  cast_parameters();
}

void PipelineStage::cast_parameters() {
  for (const auto& layer : layers_) layer->parameters_changed();
}

void PipelineStage::update_parameters() {
  if (optimizer_ == Optimizer::sgd) {
    at::_foreach_add_(parameters_, gradients_, -learning_rate_);
    return;
  }
  at::_foreach_add_(step_counts_, 1);
  const bool decays = optimizer_ != Optimizer::adam;
  const auto update = [&](const auto& fused) {
    fused(parameters_, gradients_, first_moments_, second_moments_, /*max_exp_avg_sqs=*/at::TensorList(), step_counts_,
          learning_rate_, kAdamBeta1, kAdamBeta2, decays ? kAdamWDecay : 0, kAdamEpsilon, /*amsgrad=*/false,
          /*maximize=*/false);
  };
  if (decays) {
    update([](auto&&... arguments) { at::_fused_adamw_(arguments...); });
  } else {
    update([](auto&&... arguments) { at::_fused_adam_(arguments...); });
  }
}

double PipelineStage::loss() const {
  const c10::InferenceMode without_autograd;
  const at::Tensor errors = errors_.to(at::kCPU).to(at::kDouble);
  const double sum = loss_ == Loss::mse ? errors.square().sum().item<double>() / 2 : errors.sum().item<double>();
  return sum * loss_scale_ / static_cast<double>(replicas_);
}

}  // namespace pdl
