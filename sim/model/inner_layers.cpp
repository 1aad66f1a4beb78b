#include "sim/model/inner_layers.hpp"

#include <algorithm>

namespace pdl {

extern const LayerKind kCast, kGradientSum, kSplit, kSum, kPositionEmbedding;

namespace {

LayerWork of_inner(const LayerWork& work, const InnerLayer& inner) {
  LayerWork own = work;
  own.rows = work.rows * inner.rows;
  own.input_gradient = work.input_gradient || inner.from != InnerLayer::kInput;
  return own;
}

/// Of a result: how many numbers, of how many bytes, and who keeps it.
struct InnerTensor {
  std::int64_t numbers = 0;
  std::int64_t number_bytes = kBytesPerNumber;
  bool kept = false;
  std::int64_t bytes() const { return numbers * number_bytes; }
};

/// Of a forward, in bytes: what an inner layer makes that stays, and what is there while it runs.
struct Moment {
  std::int64_t kept = 0, temporary = 0;
};

/// How much more than all that stays is there at once: what later layers keep does not exist yet. 0: never more.
std::int64_t most_above_all(const std::vector<Moment>& moments) {
  std::int64_t later = 0, most = 0;
  for (auto moment = moments.rbegin(); moment != moments.rend(); ++moment) {
    most = std::max(most, moment->temporary - later);
    later += moment->kept;
  }
  return most;
}

}  // namespace

std::vector<std::size_t> last_takers(const std::vector<InnerLayer>& inner) {
  std::vector<std::size_t> last(inner.size() + 1, inner.size());
  for (std::size_t i = 0; i < inner.size(); ++i) {
    last[place_of(inner[i].from)] = i;
    if (inner[i].and_from != InnerLayer::kNone) last[place_of(inner[i].and_from)] = i;
  }
  return last;
}

std::int64_t bytes_of(const std::vector<TensorSize>& tensors) {
  std::int64_t bytes = 0;
  for (const TensorSize& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

std::vector<InnerLayer> inner_layers(const Layer& layer) {
  if (layer.kind->inner) return layer.kind->inner(layer);
  return {InnerLayer{.layer = layer}};
}

std::vector<std::int64_t> inner_number_bytes(const std::vector<InnerLayer>& inner, Dtype dtype,
                                             std::int64_t input_number_bytes) {
  std::vector<std::int64_t> results = {input_number_bytes};
  for (const InnerLayer& one : inner) {
    std::int64_t bytes = result_number_bytes(one.layer, dtype, results[place_of(one.from)]);
    if (one.and_from != InnerLayer::kNone) bytes = std::max(bytes, results[place_of(one.and_from)]);
    results.push_back(bytes);
  }
  return results;
}

std::vector<Leaf> leaves_of(const Layer& layer, std::int32_t index, Dtype dtype, std::int64_t input_number_bytes) {
  const std::vector<InnerLayer> inner = inner_layers(layer);
  if (inner.size() == 1 && !is_amp(dtype)) return {{layer, 1, index, input_number_bytes}};
  const std::vector<std::int64_t> number_bytes = inner_number_bytes(inner, dtype, input_number_bytes);
  std::vector<std::int64_t> takers(inner.size() + 1, 0);
  for (const InnerLayer& one : inner) {
    ++takers[place_of(one.from)];
    if (one.and_from != InnerLayer::kNone) ++takers[place_of(one.and_from)];
  }
  std::vector<Leaf> leaves;
  const auto add_gradient_sums = [&](std::size_t tensor, Leaf of) {
    of.layer = Layer{&kGradientSum, {of.layer.sizes[0]}};
    for (std::int64_t more = 1; more < takers[tensor]; ++more) leaves.push_back(of);
  };
  if (!layer.kind->takes_tokens) {
    add_gradient_sums(0, {{&kGradientSum, {input_numbers(layer)}},
                          1,
                          index,
                          input_number_bytes,
                          input_number_bytes,
                          true,
                          inner.front().part});
  }
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const InnerLayer& one = inner[i];
    Leaf leaf{one.layer,
              one.rows,
              index,
              number_bytes[place_of(one.from)],
              number_bytes[i + 1],
              one.from == InnerLayer::kInput,
              one.part};
    const bool model_begins = leaf.begins_layer && index == 0;
    const bool product = one.layer.kind->scaling == LayerScaling::matrix_product;
    if (is_amp(dtype) && product && leaf.number_bytes == kBytesPerNumber && !model_begins) {
      Leaf cast = leaf;
      cast.layer = Layer{&kCast, {input_numbers(one.layer)}};
      cast.result_number_bytes = kBytesPerNumber / 2;
      leaves.push_back(cast);
      leaf.number_bytes = cast.result_number_bytes;
      leaf.begins_layer = false;
    }
    leaves.push_back(leaf);
    leaf.layer.sizes[0] = output_numbers(one.layer);
    leaf.number_bytes = leaf.result_number_bytes;
    leaf.begins_layer = false;
    add_gradient_sums(i + 1, leaf);
  }
  return leaves;
}

bool is_between_modules(const Layer& leaf) {
  return leaf.kind == &kCast || leaf.kind == &kGradientSum;
}

Dtype dtype_of(const Leaf& leaf, Dtype dtype) {
  const LayerKind& kind = *leaf.layer.kind;
  const bool in_fp32 = leaf.number_bytes >= kBytesPerNumber && !kind.mixes_types;
  return kind.scaling == LayerScaling::row_wise && in_fp32 ? Dtype::fp32 : dtype;
}

ModelLeaves leaves_of(const std::vector<Layer>& layers, Dtype dtype, const std::vector<std::int64_t>& number_bytes) {
  ModelLeaves leaves;
  leaves.all.reserve(layers.size());
  leaves.first.reserve(layers.size() + 1);
  std::size_t like = 0;  // a layer whose leaves this one's are, but for the index: equal ones stand one after another
  for (std::size_t l = 0; l < layers.size(); ++l) {
    leaves.first.push_back(static_cast<std::int32_t>(leaves.all.size()));
    const auto index = static_cast<std::int32_t>(l);
    if (like > 0 && layers[l] == layers[like] && number_bytes[l] == number_bytes[like]) {
      for (std::int32_t i = leaves.first[like]; i < leaves.first[like + 1]; ++i) {
        leaves.all.push_back(leaves.all[static_cast<std::size_t>(i)]);
        leaves.all.back().index = index;
      }
      continue;
    }
    like = l;
    const std::vector<Leaf> own = leaves_of(layers[l], index, dtype, number_bytes[l]);
    leaves.all.insert(leaves.all.end(), own.begin(), own.end());
  }
  leaves.first.push_back(static_cast<std::int32_t>(leaves.all.size()));
  return leaves;
}

std::vector<ParameterTensor> inner_parameter_tensors(const Layer& layer) {
  std::vector<ParameterTensor> all;
  for (const InnerLayer& inner : inner_layers(layer)) {
    if (inner.tied) continue;
    const std::vector<ParameterTensor> own = parameter_tensors(inner.layer);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

double inner_flops(const Layer& layer, const LayerWork& work) {
  double sum = 0;
  for (const InnerLayer& inner : inner_layers(layer)) sum += flops(inner.layer, of_inner(work, inner));
  return sum;
}

double inner_bytes(const Layer& layer, const LayerWork& work) {
  double sum = 0;
  for (const InnerLayer& inner : inner_layers(layer)) sum += bytes(inner.layer, of_inner(work, inner));
  return sum;
}

AutogradTensors inner_autograd_tensors(const Layer& layer, const AutogradCase& at) {
  const std::vector<InnerLayer> inner = inner_layers(layer);
  AutogradTensors whole;
  std::vector<InnerTensor> tensors = {{at.rows * input_numbers(layer), at.input_number_bytes}};
  std::int64_t most_between = 0;
  std::vector<Moment> moments;
  for (const InnerLayer& one : inner) {
    const InnerTensor input = tensors[place_of(one.from)];
    const bool gives_gradient = at.input_gradient || one.from != InnerLayer::kInput;
    const std::int64_t rows = at.rows * one.rows;
    const AutogradTensors own = autograd_tensors(one.layer, {rows, at.dtype, input.number_bytes, gives_gradient});
    InnerTensor result{rows * output_numbers(one.layer), own.result_number_bytes, own.keeps_result};
    if (own.keeps_input) tensors[place_of(one.from)].kept = true;
    if (one.and_from != InnerLayer::kNone) {
      InnerTensor& other = tensors[place_of(one.and_from)];
      other.kept = other.kept || own.keeps_input;
      result.number_bytes = std::max(result.number_bytes, other.number_bytes);
    }
    whole.kept.insert(whole.kept.end(), own.kept.begin(), own.kept.end());
    whole.kept_parameters.insert(whole.kept_parameters.end(), own.kept_parameters.begin(), own.kept_parameters.end());
    whole.cached.insert(whole.cached.end(), own.cached.begin(), own.cached.end());
    std::int64_t temporary = own.keeps_input || one.from == InnerLayer::kInput ? 0 : input.bytes();
    moments.push_back({bytes_of(own.kept) + bytes_of(own.kept_parameters) + bytes_of(own.cached),
                       temporary + bytes_of(own.temporary)});
    most_between = std::max(most_between, input.bytes() + result.bytes() + own.between_numbers * input.number_bytes);
    tensors.push_back(result);
  }
  for (std::size_t t = 1; t + 1 < tensors.size(); ++t) {
    if (!tensors[t].kept) continue;
    whole.kept.push_back({tensors[t].numbers, tensors[t].number_bytes});
    moments[t - 1].kept += tensors[t].bytes();
  }
  const std::int64_t most_temporary = most_above_all(moments);
  if (most_temporary > 0) whole.temporary.push_back({most_temporary, 1});
  whole.between_numbers = most_between / kBytesPerNumber;
  whole.keeps_input = tensors.front().kept;
  whole.keeps_result = tensors.back().kept;
  whole.result_number_bytes = tensors.back().number_bytes;
  return whole;
}

bool gives_view(const Layer& layer) {
  return layer.kind == &kSplit;
}

bool passes_gradient(const Layer& layer) {
  return layer.kind == &kSplit || layer.kind == &kSum || layer.kind == &kPositionEmbedding;
}

std::vector<bool> gradient_is_passed(const std::vector<InnerLayer>& inner,
                                     const std::vector<std::int64_t>& number_bytes) {
  std::vector<bool> passes(inner.size() + 1, true);  // the last one that takes it
  std::vector<int> takers(inner.size() + 1, 0);
  for (std::size_t i = 0; i < inner.size(); ++i) {
    for (const int from : {inner[i].from, inner[i].and_from}) {
      if (from == InnerLayer::kNone) continue;
      ++takers[place_of(from)];
      passes[place_of(from)] = passes_gradient(inner[i].layer) && number_bytes[i + 1] == number_bytes[place_of(from)];
    }
  }
  std::vector<bool> passed;
  for (std::size_t p = 1; p <= inner.size(); ++p) passed.push_back(takers[p] <= 1 && passes[p]);
  return passed;
}

PipelineTensors inner_pipeline_tensors(const Layer& layer, const PipelineCase& at) {
  const std::vector<InnerLayer> inner = inner_layers(layer);
  const std::vector<std::int64_t> number_bytes = inner_number_bytes(inner, at.dtype, at.input_number_bytes);
  const std::vector<bool> passed = gradient_is_passed(inner, number_bytes);
  PipelineTensors whole;
  std::int64_t most_forward = 0, most_backward = 0;
  const auto keep_larger = [&](std::vector<TensorSize>& largest, std::int64_t& most, std::vector<TensorSize> tensors) {
    if (bytes_of(tensors) <= most) return;
    most = bytes_of(tensors);
    largest = std::move(tensors);
  };
  std::vector<int> takers(inner.size() + 1, 0);
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const std::size_t from = place_of(inner[i].from);
    const std::int64_t own_rows = at.rows * inner[i].rows;
    PipelineTensors own = pipeline_tensors(inner[i].layer, {own_rows, at.dtype, number_bytes[from]});
    const TensorSize result{own_rows * output_numbers(inner[i].layer), number_bytes[i + 1]};
    if (i + 1 < inner.size() && !gives_view(inner[i].layer)) whole.kept.push_back(result);
    whole.kept.insert(whole.kept.end(), own.kept.begin(), own.kept.end());
    if (!passed[i]) whole.gradients.push_back(result);
    whole.ones_of_a_row = std::max(whole.ones_of_a_row, inner[i].rows);
    keep_larger(whole.temporary_forward, most_forward, own.temporary_forward);
    // A gradient of what others take, too, is made apart and added.
    ++takers[from];
    if (takers[from] > 1)
      own.temporary_backward.push_back({own_rows * input_numbers(inner[i].layer), number_bytes[from]});
    keep_larger(whole.temporary_backward, most_backward, own.temporary_backward);
  }
  return whole;
}

}  // namespace pdl
