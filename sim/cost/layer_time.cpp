#include "sim/cost/layer_time.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

double width(const MeasuredKey& layer) {
  return std::sqrt(static_cast<double>(layer.in) * static_cast<double>(layer.out));
}

std::string width_text(const MeasuredKey& layer) {
  if (layer.in == layer.out) return std::to_string(layer.in);
  return std::to_string(layer.in) + "x" + std::to_string(layer.out);
}

double log_ratio(double a, double b) {
  return std::abs(std::log(a / b));
}

/// How unlike the proportions of two layers are: 0 for the same in / out.
double unlike(const MeasuredKey& a, const MeasuredKey& b) {
  return log_ratio(static_cast<double>(a.in) / static_cast<double>(a.out),
                   static_cast<double>(b.in) / static_cast<double>(b.out));
}

MeasuredKey family_key(MeasuredKey layer) {
  layer.in = layer.out = layer.size = 0;
  return layer;
}

MeasuredKey with(MeasuredKey layer, const char* operation, bool accumulate, bool input_gradient) {
  layer.operation = operation;
  layer.accumulate = accumulate;
  layer.input_gradient = input_gradient;
  return layer;
}

/// What may stand in for a layer's operation, best first; the parts of one entry are done one after another.
std::vector<std::vector<MeasuredKey>> substitutes(const MeasuredKey& layer) {
  std::vector<std::vector<MeasuredKey>> all = {{layer}};
  const bool input = layer.input_gradient;
  if (layer.operation == "backward") {
    all.push_back({with(layer, "backward", !layer.accumulate, input)});
    for (const std::int64_t layers : {4, 1}) {  // of a stage of known length
      MeasuredKey of_stage = layer;
      of_stage.layers = layers;
      all.push_back({of_stage});
    }
    for (const bool accumulate : {layer.accumulate, !layer.accumulate}) {
      const MeasuredKey weight = with(layer, "backward_weight", accumulate, true);
      if (input) all.push_back({with(layer, "backward_input", false, true), weight});
      if (!input) all.push_back({weight});
    }
  }
  if (layer.operation == "backward_weight") {
    all.push_back({with(layer, "backward_weight", !layer.accumulate, true)});
    all.push_back({with(layer, "backward", layer.accumulate, false)});
    all.push_back({with(layer, "backward", !layer.accumulate, false)});
  }
  if (layer.operation == "backward_input" && !input) all.push_back({});
  return all;
}

/// The input gradient of the model's first layer, which nobody needs: what is left is the ReLU's.
bool is_relu_alone(const MeasuredKey& layer) {
  return layer.operation == "backward_input" && !layer.input_gradient;
}

/// "layer pipeline backward accumulate fp32": without the shape.
std::string operation_text(const MeasuredKey& layer) {
  return "layer " + layer.implementation + " " + layer.operation + (layer.accumulate ? " accumulate" : "") +
         (layer.input_gradient ? "" : " without input gradient") + " " + layer.dtype;
}

std::string other_implementation(const std::string& implementation) {
  return implementation == "pipeline" ? "autograd" : "pipeline";
}

}  // namespace

double layer_flops(const MeasuredKey& layer) {
  // Only the ReLU's part: a comparison for each number.
  if (is_relu_alone(layer)) return static_cast<double>(layer.size) * static_cast<double>(layer.out);
  const double once =
      2 * static_cast<double>(layer.size) * static_cast<double>(layer.in) * static_cast<double>(layer.out);
  return layer.operation == "backward" && layer.input_gradient ? 2 * once : once;
}

double layer_bytes(const MeasuredKey& layer) {
  if (is_relu_alone(layer)) return 3 * 4 * static_cast<double>(layer.size) * static_cast<double>(layer.out);
  const double element = layer.dtype.starts_with("amp") ? 2 : 4;
  const double weights = static_cast<double>(layer.in) * static_cast<double>(layer.out);
  const double rows = static_cast<double>(layer.size);
  const double activations = rows * (static_cast<double>(layer.in) + static_cast<double>(layer.out));
  const double weight_accesses = layer.operation == "backward" && layer.input_gradient ? 2 : 1;
  return element * (weight_accesses * weights + activations);
}

LayerTimes::LayerTimes(const CostProfile& profile, const std::string& dtype, Notices& notices, double host_quantile)
    : profile_(profile), notices_(notices), host_quantile_(host_quantile) {
  std::set<std::string> dtypes;
  for (const MeasuredCurve& measured : profile.of(Probe::layer)) {
    dtypes.insert(measured.key.dtype);
    if (measured.key.dtype != dtype) continue;
    for (const CurvePoint& point : measured.curve.points) {
      MeasuredKey layer = measured.key;
      layer.size = point.size;
      best_bytes_per_ns_ = std::max(best_bytes_per_ns_, layer_bytes(layer) / point.time_ns);
    }
  }
  if (!dtypes.contains(dtype)) {
    const std::vector<std::string> known(dtypes.begin(), dtypes.end());
    throw InputError("--dtype", dtype,
                     known.empty() ? "a profile with layers: profile " + profile.name + " has none"
                                   : "what profile " + profile.name + " has layers of: " + list_words(known));
  }
}

const LayerTimes::Family* LayerTimes::family(MeasuredKey layer) {
  const MeasuredKey key = family_key(layer);
  const auto known = families_.find(key);
  if (known != families_.end()) return known->second.shapes.empty() ? nullptr : &known->second;
  Family& family = families_[key];
  for (const MeasuredCurve& measured : profile_.of(Probe::layer)) {
    if (family_key(measured.key) != key) continue;
    family.shapes.push_back(&measured);
    for (const CurvePoint& point : measured.curve.points) {
      if (family.smallest_ns == 0 || point.time_ns < family.smallest_ns) family.smallest_ns = point.time_ns;
    }
  }
  std::sort(family.shapes.begin(), family.shapes.end(), [](const MeasuredCurve* a, const MeasuredCurve* b) {
    return std::pair(width(a->key), a->key) < std::pair(width(b->key), b->key);
  });
  return family.shapes.empty() ? nullptr : &family;
}

std::vector<MeasuredKey> LayerTimes::resolve(const MeasuredKey& layer) {
  MeasuredKey other = layer;
  other.implementation = other_implementation(layer.implementation);
  for (const MeasuredKey& wanted : {layer, other}) {
    for (const std::vector<MeasuredKey>& parts : substitutes(wanted)) {
      const auto measured = [&](const MeasuredKey& part) { return family(part) != nullptr; };
      if (!std::all_of(parts.begin(), parts.end(), measured)) continue;
      if (parts == std::vector<MeasuredKey>{layer}) return parts;
      std::string text;
      for (const MeasuredKey& part : parts) text += (text.empty() ? "" : " and ") + operation_text(part);
      notices_.say("not in profile " + profile_.name + ": " + operation_text(layer) + "; " +
                   (parts.empty() ? "taken as no time" : text + " used instead"));
      return parts;
    }
  }
  throw InputError("profile " + profile_.name, "no " + operation_text(layer), "measurements of it");
}

double LayerTimes::roofline_ns(const Family& family, const MeasuredKey& layer, const MeasuredKey& measured,
                               double measured_ns) const {
  return std::max({measured_ns * layer_flops(layer) / layer_flops(measured), layer_bytes(layer) / best_bytes_per_ns_,
                   family.smallest_ns});
}

double LayerTimes::at_rows(const Family& family, const MeasuredCurve& shape, std::int64_t rows) {
  const Curve& curve = shape.curve;
  if (rows >= curve.least() && rows <= curve.largest()) return read_curve(curve, rows).time_ns;
  notices_.extrapolated("rows", rows, curve.least(), curve.largest());
  const CurvePoint& nearest = nearest_point(curve, rows);
  MeasuredKey layer = shape.key;
  MeasuredKey measured = shape.key;
  layer.size = rows;
  measured.size = nearest.size;
  return roofline_ns(family, layer, measured, nearest.time_ns);
}

OperationTime LayerTimes::of_family(const Family& family, const MeasuredKey& layer) {
  const auto at_shape = [&](const MeasuredCurve& shape, double device_ns) {
    return OperationTime{device_ns, read_issue_ns(shape.curve, layer.size, host_quantile_),
                         &nearest_point(shape.curve, layer.size).kernels};
  };
  // The nearest on either side in width; of equal widths the one with the most similar proportions.
  const MeasuredCurve* below = nullptr;
  const MeasuredCurve* above = nullptr;
  for (const MeasuredCurve* shape : family.shapes) {
    if (shape->key.in == layer.in && shape->key.out == layer.out) {
      return at_shape(*shape, at_rows(family, *shape, layer.size));
    }
    const auto better = [&](const MeasuredCurve* old) {
      return !old || log_ratio(width(shape->key), width(layer)) < log_ratio(width(old->key), width(layer)) ||
             (width(shape->key) == width(old->key) && unlike(shape->key, layer) < unlike(old->key, layer));
    };
    if (width(shape->key) <= width(layer) && better(below)) below = shape;
    if (width(shape->key) >= width(layer) && better(above)) above = shape;
  }
  const MeasuredCurve& nearest =
      !above || (below && log_ratio(width(below->key), width(layer)) <= log_ratio(width(above->key), width(layer)))
          ? *below
          : *above;
  if (unlike(nearest.key, layer) > std::log(2.0)) {
    notices_.say("layers of " + width_text(layer) + " priced as if shaped like " + width_text(nearest.key));
  }
  const double nearest_ns = at_rows(family, nearest, layer.size);
  if (below && above) {
    if (width(below->key) == width(above->key)) return at_shape(nearest, nearest_ns);
    return at_shape(nearest, interpolate_log_log(width(layer), width(below->key), at_rows(family, *below, layer.size),
                                                 width(above->key), at_rows(family, *above, layer.size)));
  }
  notices_.extrapolated("dim", width(layer), width_text(layer), std::llround(width(family.shapes.front()->key)),
                        std::llround(width(family.shapes.back()->key)));
  MeasuredKey measured = nearest.key;
  measured.size = layer.size;
  return at_shape(nearest, roofline_ns(family, layer, measured, nearest_ns));
}

const std::vector<OperationTime>& LayerTimes::at(const MeasuredKey& layer) {
  const auto known = known_.find(layer);
  if (known != known_.end()) return known->second;
  std::vector<OperationTime> times;
  for (const MeasuredKey& part : resolve(layer)) times.push_back(of_family(*family(part), part));
  return known_[layer] = std::move(times);
}

}  // namespace pdl
