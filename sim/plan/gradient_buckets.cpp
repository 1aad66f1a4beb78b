#include "sim/plan/gradient_buckets.hpp"

#include <algorithm>
#include <numeric>

namespace pdl {
namespace {

/// The parameters of all layers, as they are registered.
struct RegisteredTensors {
  std::vector<std::int64_t> bytes;
  std::vector<std::int32_t> layers;  // which layer each is of

  explicit RegisteredTensors(const Model& model) {
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      for (const ParameterTensor& tensor : parameter_tensors(model.layers[l])) {
        bytes.push_back(tensor.numbers() * kBytesPerNumber);
        layers.push_back(static_cast<std::int32_t>(l));
      }
    }
  }

  TensorIndices as_they_come(GradientOrder order) const {
    TensorIndices coming(bytes.size());
    std::iota(coming.rbegin(), coming.rend(), std::size_t{0});
    if (order == GradientOrder::weight_first)
      std::stable_sort(coming.begin(), coming.end(), [this](std::size_t a, std::size_t b) {
        return layers[a] != layers[b] ? layers[a] > layers[b] : a < b;
      });
    return coming;
  }
};

std::vector<GradientBucket> describe(const std::vector<TensorIndices>& buckets, const RegisteredTensors& registered) {
  std::vector<GradientBucket> described;
  for (const TensorIndices& tensors : buckets) {
    GradientBucket bucket;
    bucket.tensors = tensors;
    for (const std::size_t tensor : tensors) bucket.bytes += registered.bytes[tensor];
    bucket.lowest_layer = registered.layers[*std::min_element(tensors.begin(), tensors.end())];
    described.push_back(std::move(bucket));
  }
  return described;
}

}  // namespace

std::vector<TensorIndices> fill_buckets(std::span<const std::int64_t> bytes, std::int64_t first_limit,
                                        std::int64_t limit) {
  std::vector<TensorIndices> buckets;
  TensorIndices open;
  std::int64_t size = 0;
  for (std::size_t tensor = 0; tensor < bytes.size(); ++tensor) {
    open.push_back(tensor);
    size += bytes[tensor];
    if (size < (buckets.empty() ? first_limit : limit)) continue;
    buckets.push_back(std::move(open));
    open.clear();
    size = 0;
  }
  if (!open.empty()) buckets.push_back(std::move(open));
  return buckets;
}

std::vector<GradientBucket> gradient_buckets(const Model& model, std::int64_t first_limit, std::int64_t limit,
                                             GradientOrder order) {
  const RegisteredTensors registered(model);
  const TensorIndices coming = registered.as_they_come(order);
  std::vector<std::int64_t> bytes;
  for (const std::size_t tensor : coming) bytes.push_back(registered.bytes[tensor]);
  std::vector<TensorIndices> buckets = fill_buckets(bytes, first_limit, limit);
  for (TensorIndices& bucket : buckets) {
    for (std::size_t& tensor : bucket) tensor = coming[tensor];
  }
  return describe(buckets, registered);
}

std::vector<GradientBucket> parameter_chunks(const Model& model, std::int64_t limit) {
  const RegisteredTensors registered(model);
  return describe(fill_buckets(registered.bytes, limit, limit), registered);
}

std::vector<GradientBucket> reduce_chunks(const Model& model, std::int64_t limit) {
  const RegisteredTensors registered(model);
  const std::vector<std::int64_t>& bytes = registered.bytes;
  std::vector<TensorIndices> chunks;
  std::int64_t size = 0;
  for (std::size_t tensor = 0; tensor < bytes.size(); ++tensor) {
    if (chunks.empty() || size + bytes[tensor] > limit) {
      chunks.emplace_back();
      size = 0;
    }
    chunks.back().push_back(tensor);
    size += bytes[tensor];
  }
  return describe(chunks, registered);
}

}  // namespace pdl
