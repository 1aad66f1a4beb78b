#include "sim/cost/layer_time.hpp"

#include <algorithm>
#include <utility>

#include "sim/io/error.hpp"

namespace pdl {
namespace {

/// The words of a key as the layer's kind knows them.
LayerWork work_of(const MeasuredKey& layer) {
  LayerWork work;
  work.rows = layer.size;
  work.input_gradient = layer.input_gradient;
  work.dtype = layer.dtype.value_or(Dtype::fp32);
  if (layer.operation == "backward") work.operation = LayerOperation::backward;
  if (layer.operation == "backward_input") work.operation = LayerOperation::backward_input;
  if (layer.operation == "backward_weight") work.operation = LayerOperation::backward_weight;
  return work;
}

}  // namespace

double layer_flops(const MeasuredKey& layer) {
  return flops(layer.layer, work_of(layer));
}

double layer_bytes(const MeasuredKey& layer) {
  return bytes(layer.layer, work_of(layer));
}

void check_kind_is_measured(const Layer& layer, const CostProfile& profile) {
  const LayerKind* const of_mlp = linear_relu(1, 1).kind;
  if (layer.kind == of_mlp || layer.kind->with_activation == of_mlp) return;
  const auto curves = profile.of(Probe::layer);
  const auto same_kind = [&](const MeasuredCurve& measured) { return measured.key.layer.kind == layer.kind; };
  if (std::any_of(curves.begin(), curves.end(), same_kind)) return;
  throw InputError(
      "profile " + profile.name, "no layer of kind " + std::string(layer.kind->name),
      "a profile that has measured this kind: pdl-calibrate makes one, of samples that lack what transformers "
      "are made of with --from SAMPLES --transformers");
}

LayerTimes::LayerTimes(LayerFamilies& families, Dtype dtype, Notices& notices, double host_quantile)
    : families_(&families), notices_(notices), host_quantile_(host_quantile) {
  families.check_dtype(dtype);
}

LayerTimes::LayerTimes(const CostProfile& profile, Dtype dtype, Notices& notices, double host_quantile)
    : own_families_(std::make_unique<LayerFamilies>(profile)),
      families_(own_families_.get()),
      notices_(notices),
      host_quantile_(host_quantile) {
  families_->check_dtype(dtype);
}

const std::vector<OperationTime>& LayerTimes::at(MeasuredKey layer) {
  std::shared_ptr<const LayerPrice> price = families_->at(std::move(layer));
  if (!price->said.empty()) notices_.say_again(price->said);
  const auto [place, is_new] = known_.try_emplace(price.get());
  Known& known = place->second;
  if (!is_new) return known.times;
  for (const LayerPart& part : price->parts) {
    known.times.push_back({part.device_ns, read_issue_ns(*part.issue, part.issue_size, host_quantile_), part.kernels,
                           part.half_width, part.probed, &part.of, part.asked});
  }
  known.price = std::move(price);
  return known.times;
}

}  // namespace pdl
