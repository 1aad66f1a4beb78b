#include "sim/cost/layer_families.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>

#include <boost/container_hash/hash.hpp>

#include "sim/cost/attention_time.hpp"
#include "sim/cost/beside_products.hpp"
#include "sim/cost/kernel_name.hpp"
#include "sim/cost/layer_time.hpp"
#include "sim/cost/probe_clock.hpp"
#include "sim/cost/without_activation.hpp"
#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

double in(const MeasuredKey& layer) {
  return static_cast<double>(input_numbers(layer.layer));
}

double out(const MeasuredKey& layer) {
  return static_cast<double>(output_numbers(layer.layer));
}

double width(const MeasuredKey& layer) {
  return std::sqrt(in(layer)*out(layer));
}

std::string width_text(const MeasuredKey& layer) {
  const std::string of_input = std::to_string(input_numbers(layer.layer));
  if (in(layer) == out(layer)) return of_input;
  return of_input + "x" + std::to_string(output_numbers(layer.layer));
}

std::array<double, 3> log_sizes(const MeasuredKey& layer, std::int64_t rows) {
  return {std::log(static_cast<double>(rows)), std::log(in(layer)), std::log(out(layer))};
}

bool is_row_wise(const MeasuredKey& layer) {
  return layer.layer.kind->scaling == LayerScaling::row_wise;
}

/// What times of a row-wise kind follow: the numbers of the result; of an embedding, whose gradient is as large as its
/// parameters, all numbers that move.
std::int64_t numbers(const MeasuredKey& layer, std::int64_t rows) {
  if (!layer.layer.kind->takes_tokens) return rows * output_numbers(layer.layer);
  MeasuredKey of_rows = layer;
  of_rows.size = rows;
  return std::llround(layer_bytes(of_rows) / static_cast<double>(kBytesPerNumber));
}

double log_ratio(double a, double b) {
  return std::abs(std::log(a / b));
}

/// How unlike the proportions of two layers are: 0 for the same in / out.
double unlike(const MeasuredKey& a, const MeasuredKey& b) {
  return log_ratio(in(a) / out(a), in(b) / out(b));
}

MeasuredKey family_key(MeasuredKey layer) {
  layer.layer.sizes = {};
  layer.size = 0;
  return layer;
}

MeasuredKey with(MeasuredKey layer, const char* operation, bool accumulate, bool input_gradient) {
  layer.operation = operation;
  layer.accumulate = accumulate;
  layer.input_gradient = input_gradient;
  return layer;
}

/// Without what makes no difference: TF32 where nothing is multiplied by tensor cores, gradients that are added to
/// where there are no parameters, a gradient of tokens, which there is none of.
void as_measured(MeasuredKey& layer) {
  if (is_row_wise(layer) && layer.dtype == Dtype::tf32) layer.dtype = Dtype::fp32;
  if (layer.layer.kind->takes_tokens) layer.input_gradient = true;
  if (layer.accumulate && !has_parameters(layer.layer)) layer.accumulate = false;
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
    if (!has_parameters(layer.layer)) all.push_back({with(layer, "backward_input", false, input)});
    for (const bool accumulate : {layer.accumulate, !layer.accumulate}) {
      const MeasuredKey weight = with(layer, "backward_weight", accumulate, true);
      if (input) all.push_back({with(layer, "backward_input", false, true), weight});
      if (!input) all.push_back({weight});
    }
  }
  // Of kinds that only LibTorch's modules were measured of: a whole backward for the input's part.
  const bool is_product = layer.layer.kind->scaling == LayerScaling::matrix_product;
  if (layer.operation == "backward_input" && input && !is_product)
    all.push_back({with(layer, "backward", false, true)});
  if (layer.operation == "backward_weight") {
    all.push_back({with(layer, "backward_weight", !layer.accumulate, true)});
    for (const bool input_too : {false, true}) {
      if (input_too && is_product) break;
      all.push_back({with(layer, "backward", layer.accumulate, input_too)});
      all.push_back({with(layer, "backward", !layer.accumulate, input_too)});
    }
  }
  if (layer.operation == "backward_input" && !input) all.push_back({});
  return all;
}

/// "layer pipeline backward accumulate fp32", "layer_norm pipeline forward fp32": without the shape.
std::string operation_text(const MeasuredKey& layer) {
  const bool is_linear = layer.layer.kind == linear_relu(1, 1).kind;
  return (is_linear ? "layer" : std::string(layer.layer.kind->name)) + " " + layer.implementation + " " +
         layer.operation + (layer.accumulate ? " accumulate" : "") +
         (layer.input_gradient ? "" : " without input gradient") + " " + dtype_word(layer);
}

/// One curve over the numbers of the result. Where several shapes have as many, their mean time.
Curve merged(const std::vector<const MeasuredCurve*>& shapes) {
  std::map<std::int64_t, std::vector<CurvePoint>> by_numbers;
  for (const MeasuredCurve* shape : shapes) {
    for (const CurvePoint& point : shape->curve.points) by_numbers[numbers(shape->key, point.size)].push_back(point);
  }
  Curve curve;
  for (const auto& [size, points] : by_numbers) {
    CurvePoint mean = points.front();
    mean.size = size;
    mean.time_ns = 0;
    for (const CurvePoint& point : points) mean.time_ns += point.time_ns / static_cast<double>(points.size());
    curve.points.push_back(std::move(mean));
  }
  return curve;
}

std::string other_implementation(const std::string& implementation) {
  return implementation == "pipeline" ? "autograd" : "pipeline";
}

/// Two streams at once: which kernel ran beside which was not recorded.
bool runs_on_two_streams(const MeasuredKey& layer) {
  return layer.implementation == "pipeline" && layer.operation == "backward";
}

/// Kernels of the nearest measured size, its products those that the model has for this one; both as long as they are
/// taken for.
std::vector<Kernel> adapted_kernels(const std::vector<Kernel>& nearest, const ModelledOperation& modelled,
                                    double products_ns, double beside_ns) {
  std::vector<Kernel> kernels;
  kernels.reserve(nearest.size());
  double nearest_beside_ns = 0, modelled_ns = 0;
  for (const Kernel& kernel : nearest) {
    if (is_beside_products(kernel)) nearest_beside_ns += kernel.time_ns * static_cast<double>(kernel.count);
  }
  for (const Kernel& product : modelled.products) modelled_ns += product.time_ns;
  std::size_t products = 0;
  for (const Kernel& kernel : nearest) {
    const bool is_product = is_product_kernel(kernel.name) && products < modelled.products.size();
    kernels.push_back(is_product ? modelled.products[products++] : kernel);
    if (is_product) kernels.back().time_ns *= products_ns / modelled_ns;
    if (is_beside_products(kernel) && nearest_beside_ns > 0) kernels.back().time_ns *= beside_ns / nearest_beside_ns;
  }
  return products == modelled.products.size() ? kernels : nearest;
}

/// The weight's gradient of a layer without parameters; the input's of the model's first layer, which nobody needs,
/// where there is no activation to go back through; what moves nothing, such as the forward of views.
bool has_nothing_to_do(const MeasuredKey& layer) {
  if (layer.operation == "backward_weight" && !has_parameters(layer.layer)) return true;
  if (layer.layer.kind->mixes_types && layer.dtype == Dtype::fp32 && layer.operation != "forward") return true;
  if (layer.layer.kind->takes_tokens && layer.operation == "backward_input") return true;
  if (!layer.layer.kind->stands_alone && !layer.input_gradient) return true;
  if (layer_bytes(layer) == 0) return !layer.layer.kind->stands_alone;
  return layer.operation == "backward_input" && !layer.input_gradient && layer.layer.kind->with_activation;
}

/// The measured points, and the derived ones of other sizes.
std::vector<CurvePoint> with_own(const std::vector<CurvePoint>& own, std::vector<CurvePoint> derived) {
  std::erase_if(derived, [&](const CurvePoint& point) {
    return std::any_of(own.begin(), own.end(), [&](const CurvePoint& other) { return other.size == point.size; });
  });
  derived.insert(derived.end(), own.begin(), own.end());
  std::sort(derived.begin(), derived.end(), [](const CurvePoint& a, const CurvePoint& b) { return a.size < b.size; });
  return derived;
}

/// Straight between the two values where half of the weights is passed, so that it moves with the weights. Ascending
/// values, with their weights.
double weighted_median(const std::vector<std::pair<double, double>>& values, double weights) {
  double before = 0;  // of the values up to the middle of this one's weight
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double middle = before + values[i].second / 2;
    if (middle >= weights / 2) {
      if (i == 0) return values[i].first;
      const double middle_before = before - values[i - 1].second / 2;
      const double part = (weights / 2 - middle_before) / (middle - middle_before);
      return values[i - 1].first + part * (values[i].first - values[i - 1].first);
    }
    before += values[i].second;
  }
  return values.back().first;
}

/// What a median of these measurements may be off by.
double spread_of(const CurvePoint& point) {
  constexpr double kLeast = 0.003;
  return std::max(kLeast, (point.p75_ns - point.p25_ns) / point.time_ns);
}

LayerPart part_of(const Curve& curve, std::int64_t size, double device_ns) {
  LayerPart part;
  part.device_ns = device_ns;
  part.kernels = &nearest_point(curve, size).kernels;
  part.issue = &curve;
  part.issue_size = size;
  return part;
}

const CurvePoint* measured_point(const MeasuredCurve& shape, std::int64_t rows) {
  const auto& points = shape.curve.points;
  const auto found = std::find_if(points.begin(), points.end(), [&](const CurvePoint& p) { return p.size == rows; });
  return found == points.end() ? nullptr : &*found;
}

/// Prices that are kept; beyond that many they are forgotten together, so that a sweep of any length needs no more. Of
/// some 400 widths: of more of them most rows have sizes of their own, and what is kept for nothing costs time too.
constexpr std::size_t kMostKept = 4'000;

/// What an error bar grows by with each doubling beyond what was measured, a guess: kernels' model, a straight line
/// between widths, kinds whose time follows their bytes.
constexpr double kAnOctaveOfKernels = 0.1, kAnOctaveOfALine = 0.3, kAnOctaveOfBytes = 0.05;

/// Attention between measured numbers of heads, sequences and tokens: straight lines over a factor of four.
constexpr double kOfAttention = 0.06;

/// Of the bar for odd widths, where some of them were measured. Of those of 50257 each one is within 5 % of what the
/// others say of it (data/h200x2, 2026-11-30), but they are few: of 768 and 1600 at 4,096 to 16,384 rows.
constexpr double kOfOddWidths = 0.2;

/// Beyond the widths and rows of a family: log2 of how many times.
double octaves_outside(double value, double least, double largest) {
  return std::max({0.0, std::log2(value / largest), std::log2(least / value)});
}

void say_what_is_far(const MeasuredKey& layer, const LayerPart& part, double other_kernels, Notices& notices) {
  constexpr double kMuch = 0.2;
  if (other_kernels > kMuch) {
    notices.say("layers in " + to_string(*layer.dtype) + " of width " + width_text(layer) +
                ": for widths that are no multiple of 16 bytes the library takes other kernels, often slower by far, "
                "which nothing measured");
  }
  constexpr double kFar = 0.1;  // octaves
  if (part.octaves_beyond < kFar) return;
  constexpr std::int64_t kFewestTimed = 16;  // as ProductTime::octaves_beyond counts
  if (layer.size < kFewestTimed) {
    notices.say("layers of " + std::to_string(layer.size) +
                " rows: no product of so few rows was timed, so that their error bar is a guess");
    return;
  }
  notices.say("layers of width " + width_text(layer) + ", " + std::to_string(layer.size) +
              " rows: " + fixed(std::exp2(part.octaves_beyond), 1) +
              " times the largest width or rows of the products that were timed, so that their error bar is a guess");
}

}  // namespace

std::size_t LayerFamilies::HashOfOperation::operator()(const MeasuredKey& layer) const {
  std::size_t hash = 0;
  boost::hash_combine(hash, layer.implementation);
  boost::hash_combine(hash, layer.operation);
  boost::hash_combine(hash, layer.accumulate);
  boost::hash_combine(hash, layer.input_gradient);
  boost::hash_combine(hash, layer.dtype ? static_cast<int>(*layer.dtype) : -1);
  boost::hash_combine(hash, layer.layer.kind);
  boost::hash_combine(hash, layer.layers);
  return hash;
}

bool LayerFamilies::SameOperation::operator()(const MeasuredKey& a, const MeasuredKey& b) const {
  return a.implementation == b.implementation && a.operation == b.operation && a.accumulate == b.accumulate &&
         a.input_gradient == b.input_gradient && a.dtype == b.dtype && a.layer.kind == b.layer.kind &&
         a.layers == b.layers;
}

std::size_t LayerFamilies::HashOfSize::operator()(const OfSize& size) const {
  std::size_t hash = 0;
  boost::hash_combine(hash, size.operation);
  for (const std::int64_t of_layer : size.sizes) boost::hash_combine(hash, of_layer);
  boost::hash_combine(hash, size.rows);
  return hash;
}

LayerFamilies::LayerFamilies(const CostProfile& profile) : profile_(profile) {
  std::set<Dtype> by_pipeline;
  for (const MeasuredCurve& measured : profile.of(Probe::layer)) {
    const MeasuredKey& key = measured.key;
    if (key.layer.kind->scaling != LayerScaling::matrix_product || !key.dtype || is_aligned(key)) continue;
    (key.implementation == "pipeline" ? by_pipeline : unaligned_by_autograd_).insert(*key.dtype);
  }
  for (const Dtype dtype : by_pipeline) unaligned_by_autograd_.erase(dtype);
}

void LayerFamilies::check_dtype(Dtype dtype) {
  std::set<Dtype> dtypes;
  for (const MeasuredCurve& measured : profile_.of(Probe::layer)) {
    if (measured.key.dtype == dtype) return;
    if (measured.key.dtype) dtypes.insert(*measured.key.dtype);
  }
  std::vector<std::string> known;
  for (const Dtype of_profile : dtypes) known.push_back(to_string(of_profile));
  throw InputError("--dtype", to_string(dtype),
                   known.empty() ? "a profile with layers: profile " + profile_.name + " has none"
                                 : "what profile " + profile_.name + " has layers of: " + list_words(known));
}

const LayerFamilies::OfDtype& LayerFamilies::of_dtype(Dtype dtype) {
  const auto [place, is_new] = dtypes_.try_emplace(dtype);
  OfDtype& of = place->second;
  if (!is_new) return of;
  for (const MeasuredCurve& measured : profile_.of(Probe::layer)) {
    if (measured.key.dtype != dtype && !is_row_wise(measured.key)) continue;
    for (const CurvePoint& point : measured.curve.points) {
      MeasuredKey layer = measured.key;
      layer.size = point.size;
      double& best = of.best_bytes_per_ns[layer.layer.kind];
      best = std::max(best, layer_bytes(layer) / point.time_ns);
    }
  }
  return of;
}

const LayerModel* LayerFamilies::model_of(const OfDtype& of) const {
  const std::optional<LayerModel>& model = of.model.get([&]() -> std::optional<LayerModel> {
    const auto best = of.best_bytes_per_ns.find(linear_relu(1, 1).kind);
    if (!profile_.products || best == of.best_bytes_per_ns.end()) return std::nullopt;
    // Layers are products for the most part: under AMP they move a quarter of what the memory gives.
    const double of_memory = profile_.products->memory_bytes_per_ns;
    return LayerModel(*profile_.products, of_memory > 0 ? of_memory : best->second);
  });
  return model ? &*model : nullptr;
}

const LayerFamilies::Family* LayerFamilies::family(const MeasuredKey& layer) {
  const auto known = families_.find(layer);
  if (known != families_.end()) return known->second.shapes.empty() ? nullptr : &known->second;
  Family& family = families_[family_key(layer)];
  for (const MeasuredCurve& measured : profile_.of(Probe::layer)) {
    if (SameOperation()(measured.key, layer)) family.shapes.push_back(&measured);
  }
  if (layer.layer.kind->with_activation && !has_nothing_to_do(layer)) add_derived(layer, family);
  for (const MeasuredCurve* shape : family.shapes) {
    for (const CurvePoint& point : shape->curve.points) {
      if (family.smallest_ns == 0 || point.time_ns < family.smallest_ns) family.smallest_ns = point.time_ns;
    }
  }
  if (family.shapes.empty()) return nullptr;
  std::sort(family.shapes.begin(), family.shapes.end(), [](const MeasuredCurve* a, const MeasuredCurve* b) {
    return std::pair(width(a->key), a->key) < std::pair(width(b->key), b->key);
  });
  family.of_dtype = &of_dtype(layer.dtype.value_or(Dtype::fp32));
  if (is_row_wise(layer)) family.by_numbers = merged(family.shapes);
  return &family;
}

void LayerFamilies::add_derived(const MeasuredKey& layer, Family& family) {
  const LayerKind& kind = *layer.layer.kind;
  MeasuredKey with_activation = layer;
  with_activation.layer.kind = kind.with_activation;
  const auto& best = of_dtype(layer.dtype.value_or(Dtype::fp32)).best_bytes_per_ns;
  for (const MeasuredCurve& measured : profile_.of(Probe::layer)) {
    if (!SameOperation()(measured.key, with_activation)) continue;
    MeasuredCurve& derived =
        family.derived.emplace_back(without_activation(measured, kind, profile_, best.at(kind.with_activation)));
    const auto own = std::find_if(family.shapes.begin(), family.shapes.end(),
                                  [&](const MeasuredCurve* shape) { return shape->key.layer == derived.key.layer; });
    if (own == family.shapes.end()) {
      family.shapes.push_back(&derived);
    } else {
      derived.curve.points = with_own((*own)->curve.points, std::move(derived.curve.points));
      *own = &derived;
    }
  }
}

/// Of a measured size, by the kernels that were recorded there.
std::array<double, LayerFamilies::kParts> LayerFamilies::log_shares(const MeasuredKey& layer, const CurvePoint& point,
                                                                    const ModelledOperation& modelled) {
  constexpr double kMost = 0.95;  // of which too little is left for the other part to tell it from noise
  const double whole = std::log(point.time_ns / modelled.ns);
  const std::optional<double> beside_ns = beside_products_ns(point);
  const double products_ns = modelled.ns - modelled.beside_ns;  // none: the ReLU of a first layer's input gradient
  const bool has_both = products_ns > 0 && modelled.beside_ns > 0;
  if (!has_both || !beside_ns || *beside_ns <= 0 || *beside_ns > kMost * point.time_ns || runs_on_two_streams(layer))
    return {whole, whole};
  return {std::log((point.time_ns - *beside_ns) / products_ns), std::log(*beside_ns / modelled.beside_ns)};
}

const LayerFamilies::Shares& LayerFamilies::shares_of(const Family& family) const {
  return family.shares.get([&] {
    Shares shares;
    const LayerModel* model = model_of(*family.of_dtype);
    if (!model) return shares;
    for (const MeasuredCurve* shape : family.shapes) {
      MeasuredKey size = shape->key;
      for (const CurvePoint& point : shape->curve.points) {
        size.size = point.size;
        const std::optional<ModelledOperation> modelled =
            is_aligned(size) ? model->at(size) : model->of_odd_widths(size);
        if (!modelled) continue;
        shares.all.push_back(
            {log_sizes(size, point.size), log_shares(size, point, *modelled), is_aligned(size), &point, shape});
        shares.has[is_aligned(size) ? 1 : 0] = true;
      }
    }
    for (std::size_t part = 0; part < kParts; ++part) {
      std::vector<std::size_t>& order = shares.by_log_share[part];
      for (std::size_t i = 0; i < shares.all.size(); ++i) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return shares.all[a].log_share[part] < shares.all[b].log_share[part];
      });
    }
    return shares;
  });
}

const LayerFamilies::Substitute& LayerFamilies::substitute(const MeasuredKey& layer) {
  const auto known = substitutes_.find(layer);
  if (known != substitutes_.end()) return known->second;
  return substitutes_.emplace(family_key(layer), find_substitute(layer)).first->second;
}

LayerFamilies::Substitute LayerFamilies::find_substitute(const MeasuredKey& layer) {
  Substitute found;
  if (has_nothing_to_do(layer)) return found;
  MeasuredKey other = layer;
  other.implementation = other_implementation(layer.implementation);
  for (const MeasuredKey& wanted : {layer, other}) {
    for (const std::vector<MeasuredKey>& parts : substitutes(wanted)) {
      const auto measured = [&](const MeasuredKey& part) { return family(part) != nullptr; };
      if (!std::all_of(parts.begin(), parts.end(), measured)) continue;
      for (const MeasuredKey& part : parts) found.parts.emplace_back(part, family(part));
      if (parts == std::vector<MeasuredKey>{layer}) return found;
      std::string text;
      for (const MeasuredKey& part : parts) text += (text.empty() ? "" : " and ") + operation_text(part);
      if (parts.empty()) {
        found.said.say("not in profile " + profile_.name + ": " + operation_text(layer) + "; taken as no time");
      } else {
        found.said.say_substitute("layers", profile_.name, operation_text(layer), text);
      }
      return found;
    }
  }
  if (layer.dtype == Dtype::amp_fp16 && layer.layer.kind->scaling != LayerScaling::matrix_product) {
    MeasuredKey as_bf16 = layer;
    as_bf16.dtype = Dtype::amp_bf16;
    return find_substitute(as_bf16);  // the same bytes and the same kernels
  }
  if (!layer.layer.kind->inner && layer.layer.kind->modules == 0) {
    found.said.say("not in profile " + profile_.name + ": " + operation_text(layer) + "; taken as no time");
    return found;
  }
  check_kind_is_measured(layer.layer, profile_);
  throw InputError("profile " + profile_.name, "no " + operation_text(layer), "measurements of it");
}

bool LayerFamilies::has(const MeasuredKey& layer) {
  {
    const std::shared_lock lock(mutex_);
    const auto known = families_.find(layer);
    if (known != families_.end()) return !known->second.shapes.empty();
  }
  const std::unique_lock lock(mutex_);
  return family(layer) != nullptr;
}

PowerLimit LayerFamilies::power_limit(Dtype dtype) {
  {
    const std::shared_lock lock(mutex_);
    const auto known = power_limits_.find(dtype);
    if (known != power_limits_.end()) return known->second;
  }
  const std::unique_lock lock(mutex_);
  return power_limits_.try_emplace(dtype, PowerLimit(profile_, dtype)).first->second;
}

/// Kernels for odd widths are slower by far, whoever calls them, and take as long in either type of half precision.
void LayerFamilies::as_odd_widths_were_measured(MeasuredKey& layer) const {
  if (layer.layer.kind->scaling != LayerScaling::matrix_product || !layer.dtype || is_aligned(layer)) return;
  const auto measured = [&](Dtype dtype) { return unaligned_by_autograd_.contains(dtype); };
  if (layer.dtype == Dtype::amp_fp16 && !measured(Dtype::amp_fp16) && measured(Dtype::amp_bf16))
    layer.dtype = Dtype::amp_bf16;
  if (layer.implementation != "pipeline" || !measured(*layer.dtype)) return;
  layer.implementation = "autograd";
  layer.layers = 0;
}

std::shared_ptr<const LayerPrice> LayerFamilies::at(MeasuredKey layer) {
  as_measured(layer);
  if (!unaligned_by_autograd_.empty()) as_odd_widths_were_measured(layer);
  const Substitute* stands_for_it = nullptr;
  {
    const std::shared_lock lock(mutex_);
    const auto found = substitutes_.find(layer);
    if (found != substitutes_.end()) {
      stands_for_it = &found->second;
      const auto known = known_.find({stands_for_it, layer.layer.sizes, layer.size});
      if (known != known_.end()) return known->second;
    }
  }
  if (!stands_for_it) {
    const std::unique_lock lock(mutex_);
    stands_for_it = &substitute(layer);
  }
  auto price = std::make_shared<LayerPrice>();
  price->said = stands_for_it->said;
  for (const auto& [part, family] : stands_for_it->parts) {
    MeasuredKey of_size = part;
    of_size.layer = layer.layer;
    of_size.size = layer.size;
    price->parts.push_back(of_family(*family, of_size, *price));
    price->parts.back().of = std::move(of_size);
  }
  decltype(known_) forgotten;  // with no lock held
  const std::unique_lock lock(mutex_);
  if (known_.size() >= kMostKept) known_.swap(forgotten);
  return known_.try_emplace({stands_for_it, layer.layer.sizes, layer.size}, std::move(price)).first->second;
}

double LayerFamilies::roofline_ns(const Family& family, const MeasuredKey& layer, const MeasuredKey& measured,
                                  double measured_ns) const {
  const LayerKind* kind = layer.layer.kind;
  const auto& best = family.of_dtype->best_bytes_per_ns;
  const double bytes_per_ns = best.at(best.contains(kind) ? kind : kind->with_activation);
  const double measured_flops = layer_flops(measured);
  const double by_flops = measured_flops > 0 ? measured_ns * layer_flops(layer) / measured_flops : 0;
  return std::max({by_flops, layer_bytes(layer) / bytes_per_ns, family.smallest_ns});
}

double LayerFamilies::at_rows(const Family& family, const MeasuredCurve& shape, std::int64_t rows,
                              Notices& notices) const {
  const Curve& curve = shape.curve;
  if (rows >= curve.least() && rows <= curve.largest()) return read_curve(curve, rows).time_ns;
  notices.extrapolated("rows", rows, curve.least(), curve.largest());
  const CurvePoint& nearest = nearest_point(curve, rows);
  MeasuredKey layer = shape.key;
  MeasuredKey measured = shape.key;
  layer.size = rows;
  measured.size = nearest.size;
  return roofline_ns(family, layer, measured, nearest.time_ns);
}

/// All shapes are one curve; its points have the shape's times, of shapes with as many numbers the mean.
LayerPart LayerFamilies::by_numbers(const Family& family, const MeasuredKey& layer, Notices& notices) const {
  for (const MeasuredCurve* shape : family.shapes) {
    const Curve& curve = shape->curve;
    if (shape->key.layer != layer.layer || layer.size < curve.least() || layer.size > curve.largest()) continue;
    return part_of(curve, layer.size, read_curve(curve, layer.size).time_ns);
  }
  const Curve& curve = family.by_numbers;
  const std::int64_t size = numbers(layer, layer.size);
  const auto same_shape = [&](const MeasuredCurve* shape) { return shape->key.layer == layer.layer; };
  const bool sums_rows = has_parameters(layer.layer) && !layer.layer.kind->takes_tokens;
  if (sums_rows && std::none_of(family.shapes.begin(), family.shapes.end(), same_shape)) {
    notices.say("not in profile " + profile_.name + ": " + to_text(layer.layer) +
                "; priced by rows x width as the widths measured, which may be far off where rows are many and narrow");
  }
  if (size >= curve.least() && size <= curve.largest()) return part_of(curve, size, read_curve(curve, size).time_ns);
  notices.extrapolated("rows x width of " + std::string(layer.layer.kind->name), size, curve.least(), curve.largest());
  const CurvePoint& nearest = nearest_point(curve, size);
  const double all_ns = nearest.time_ns * static_cast<double>(size) / static_cast<double>(nearest.size);
  // FLOPs and bytes are in proportion to the numbers.
  return part_of(curve, size, roofline_ns(family, layer, layer, all_ns));
}

/// Norms have sums over rows and over columns: both count. Between two widths that were measured around so many rows,
/// on straight lines in the logarithms; none where there are none.
std::optional<LayerPart> LayerFamilies::by_rows_and_width(const Family& family, const MeasuredKey& layer) {
  if (!is_row_wise(layer) || !has_parameters(layer.layer) || layer.layer.kind->sizes.size() != 1) return std::nullopt;
  const MeasuredCurve* below = nullptr;
  const MeasuredCurve* above = nullptr;
  for (const MeasuredCurve* shape : family.shapes) {  // ascending widths
    if (layer.size < shape->curve.least() || layer.size > shape->curve.largest()) continue;
    if (width(shape->key) <= width(layer)) below = shape;
    if (width(shape->key) >= width(layer) && !above) above = shape;
  }
  if (!below || !above) return std::nullopt;
  const double below_ns = read_curve(below->curve, layer.size).time_ns;
  if (below == above) return part_of(below->curve, layer.size, below_ns);
  const double above_ns = read_curve(above->curve, layer.size).time_ns;
  return part_of(below->curve, layer.size,
                 interpolate_log_log(width(layer), width(below->key), below_ns, width(above->key), above_ns));
}

/// What the error bar has more of. Kernels of tensor cores load 16 bytes at once: for a width that is no multiple of so
/// many numbers the library has others, up to several times slower, of which few were measured. In fp32 many kernels
/// load numbers one by one anyway.
double LayerFamilies::other_kernels_bar(const MeasuredKey& layer) const {
  constexpr double kOnTensorCores = 0.5, kInFp32 = 0.1;
  if (is_row_wise(layer) || !profile_.products || is_aligned(layer)) return 0;
  const Dtype dtype = layer.dtype.value_or(Dtype::fp32);
  return dtype == Dtype::fp32 ? kInFp32 : kOnTensorCores;
}

/// Of sizes that were held back when the profile was fitted; where that is not known, and where the library was not
/// asked for such sizes, what a straight line between widths is off by (docs/accuracy.md). Beyond all that was measured
/// nothing was ever held against it, and the bar grows with the distance.
double LayerFamilies::half_width(const MeasuredKey& layer, const LayerPart& part, double an_octave_beyond) const {
  constexpr double kOfALine = 0.15;
  // Of few sizes that were not asked for a chance may be better than of many that were.
  const auto of_such = [&](bool asked) {
    const LayerError* found = nullptr;
    for (const LayerError& error : profile_.layer_errors) {
      if (error.implementation != layer.implementation || error.dtype != layer.dtype || error.asked != asked ||
          error.from_ns > part.device_ns)
        continue;
      if (!found || error.from_ns > found->from_ns) found = &error;
    }
    return found ? found->half_width : kOfALine;
  };
  const double known = part.asked ? of_such(true) : std::max(of_such(true), of_such(false));
  return known + an_octave_beyond * part.octaves_beyond;
}

std::optional<LayerPart> LayerFamilies::by_model(const Family& family, const MeasuredKey& layer,
                                                 LayerPrice& price) const {
  constexpr double kNear2 = 0.5;
  const Shares& shares = shares_of(family);
  if (shares.all.empty()) return std::nullopt;
  const bool aligned = is_aligned(layer), has_such = shares.has[aligned ? 1 : 0];
  const LayerModel* model = model_of(*family.of_dtype);
  const std::optional<ModelledOperation> modelled =
      aligned || !has_such ? model->at(layer) : model->of_odd_widths(layer);
  if (!modelled) return std::nullopt;
  const std::array<double, 3> log_size = log_sizes(layer, layer.size);
  double sum = 0, least = INFINITY;
  std::vector<double> weights;
  const MeasuredShare* nearest = nullptr;
  weights.reserve(shares.all.size());
  for (const MeasuredShare& share : shares.all) {
    double distance2 = 0;
    if (has_such && share.aligned != aligned) {
      weights.push_back(0);
      continue;
    }
    for (std::size_t i = 0; i < log_size.size(); ++i) {
      const double away = log_size[i] - share.log_size[i];
      distance2 += away * away;
    }
    weights.push_back(1 / ((distance2 + kNear2) * (distance2 + kNear2)));
    sum += weights.back();
    if (distance2 < least) {
      least = distance2;
      nearest = &share;
    }
  }
  std::array<double, kParts> ns = {modelled->ns - modelled->beside_ns, modelled->beside_ns};
  std::vector<std::pair<double, double>> weighted;  // log share, weight
  weighted.reserve(weights.size());
  for (std::size_t p = 0; p < kParts; ++p) {
    weighted.clear();
    for (const std::size_t i : shares.by_log_share[p]) weighted.emplace_back(shares.all[i].log_share[p], weights[i]);
    ns[p] *= std::exp(weighted_median(weighted, sum));
  }
  price.modelled_kernels.push_back(adapted_kernels(nearest->point->kernels, *modelled, ns[kProducts], ns[kBeside]));
  LayerPart part;
  part.device_ns = ns[kProducts] + ns[kBeside];
  part.kernels = &price.modelled_kernels.back();
  part.issue = &nearest->curve->curve;
  part.issue_size = layer.size;
  // Of odd widths a few were measured, or none.
  const double other_kernels = (has_such ? kOfOddWidths : 1) * other_kernels_bar(layer);
  part.asked = modelled->covered && other_kernels == 0;
  part.octaves_beyond = modelled->octaves_beyond;
  part.half_width = half_width(layer, part, kAnOctaveOfKernels) + other_kernels;
  part.probed = false;
  say_what_is_far(layer, part, other_kernels, price.said);
  return part;
}

/// By how much a layer lies outside of the widths of a family, or of the rows of those.
double LayerFamilies::octaves_of(const Family& family, const MeasuredKey& layer) {
  double least_rows = INFINITY, most_rows = 0;
  for (const MeasuredCurve* shape : family.shapes) {
    least_rows = std::min(least_rows, static_cast<double>(shape->curve.least()));
    most_rows = std::max(most_rows, static_cast<double>(shape->curve.largest()));
  }
  return std::max(octaves_outside(width(layer), width(family.shapes.front()->key), width(family.shapes.back()->key)),
                  octaves_outside(static_cast<double>(layer.size), least_rows, most_rows));
}

LayerPart LayerFamilies::of_family(const Family& family, const MeasuredKey& layer, LayerPrice& price) const {
  LayerPart part;
  const auto same = std::find_if(family.shapes.begin(), family.shapes.end(),
                                 [&](const MeasuredCurve* shape) { return shape->key.layer == layer.layer; });
  const CurvePoint* measured = same == family.shapes.end() ? nullptr : measured_point(**same, layer.size);
  if (measured) {
    part = part_of((*same)->curve, layer.size, measured->time_ns);
    part.half_width = spread_of(*measured);
    part.probed = measured->count > 0;  // else derived
  } else if (layer.layer.kind->scaling == LayerScaling::attention) {
    const AttentionTime time = attention_time(family.shapes, layer);
    part = part_of(*time.nearest, time.nearest_size, time.ns);
    part.octaves_beyond = time.octaves_beyond;
    part.half_width = kOfAttention + kAnOctaveOfKernels * time.octaves_beyond;
    part.probed = false;
  } else if (const auto between = by_rows_and_width(family, layer)) {
    part = *between;
    part.half_width = half_width(layer, part, kAnOctaveOfBytes);
    part.probed = false;
  } else if (is_row_wise(layer)) {
    part = by_numbers(family, layer, price.said);
    const Curve& curve = family.by_numbers;
    part.octaves_beyond = octaves_outside(static_cast<double>(numbers(layer, layer.size)),
                                          static_cast<double>(curve.least()), static_cast<double>(curve.largest()));
    part.half_width = half_width(layer, part, kAnOctaveOfBytes);
    part.probed = false;
  } else if (const auto modelled = by_model(family, layer, price)) {
    part = *modelled;
  } else {
    part = by_line(family, layer, price.said);
    part.asked = false;
    part.octaves_beyond = octaves_of(family, layer);
    part.half_width = half_width(layer, part, kAnOctaveOfALine) + other_kernels_bar(layer);
    part.probed = false;
  }
  if (part.kernels) part.device_ns *= at_full_clock(profile_, layer, *part.kernels);
  return part;
}

LayerPart LayerFamilies::by_line(const Family& family, const MeasuredKey& layer, Notices& notices) const {
  const auto rows_of = [&](const MeasuredCurve& shape) { return at_rows(family, shape, layer.size, notices); };
  // The nearest on either side in width; of equal widths the one with the most similar proportions.
  const MeasuredCurve* below = nullptr;
  const MeasuredCurve* above = nullptr;
  for (const MeasuredCurve* shape : family.shapes) {
    if (shape->key.layer == layer.layer) return part_of(shape->curve, layer.size, rows_of(*shape));
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
    notices.say("layers of " + width_text(layer) + " priced as if shaped like " + width_text(nearest.key));
  }
  const auto at_nearest = [&](double device_ns) { return part_of(nearest.curve, layer.size, device_ns); };
  const double nearest_ns = rows_of(nearest);
  if (below && above) {
    if (width(below->key) == width(above->key)) return at_nearest(nearest_ns);
    const double above_ns = rows_of(*above), below_ns = rows_of(*below);
    return at_nearest(interpolate_log_log(width(layer), width(below->key), below_ns, width(above->key), above_ns));
  }
  notices.extrapolated("dim", width(layer), width_text(layer), std::llround(width(family.shapes.front()->key)),
                       std::llround(width(family.shapes.back()->key)));
  MeasuredKey measured = nearest.key;
  measured.size = layer.size;
  return at_nearest(roofline_ns(family, layer, measured, nearest_ns));
}

}  // namespace pdl
