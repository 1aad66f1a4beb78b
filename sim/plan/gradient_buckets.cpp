#include "sim/plan/gradient_buckets.hpp"

#include <algorithm>

namespace pdl {
namespace {

/// Weight and bias of every layer, as they are registered.
std::vector<std::int64_t> tensor_bytes(const Model& model) {
  std::vector<std::int64_t> bytes;
  for (const Layer& layer : model.layers) {
    bytes.push_back(layer.in_features * layer.out_features * kBytesPerNumber);
    bytes.push_back(layer.out_features * kBytesPerNumber);
  }
  return bytes;
}

std::vector<GradientBucket> describe(const std::vector<TensorIndices>& buckets,
                                     const std::vector<std::int64_t>& bytes) {
  std::vector<GradientBucket> described;
  for (const TensorIndices& tensors : buckets) {
    GradientBucket bucket;
    bucket.tensors = tensors;
    for (const std::size_t tensor : tensors) bucket.bytes += bytes[tensor];
    bucket.lowest_layer = static_cast<std::int32_t>(*std::min_element(tensors.begin(), tensors.end()) / 2);
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

std::vector<GradientBucket> gradient_buckets(const Model& model, std::int64_t first_limit, std::int64_t limit) {
  const std::vector<std::int64_t> bytes = tensor_bytes(model);
  const std::vector<std::int64_t> reversed(bytes.rbegin(), bytes.rend());
  std::vector<TensorIndices> buckets = fill_buckets(reversed, first_limit, limit);
  for (TensorIndices& bucket : buckets) {
    for (std::size_t& tensor : bucket) tensor = bytes.size() - 1 - tensor;
  }
  return describe(buckets, bytes);
}

std::vector<GradientBucket> parameter_chunks(const Model& model, std::int64_t limit) {
  const std::vector<std::int64_t> bytes = tensor_bytes(model);
  return describe(fill_buckets(bytes, limit, limit), bytes);
}

std::vector<GradientBucket> reduce_chunks(const Model& model, std::int64_t limit) {
  const std::vector<std::int64_t> bytes = tensor_bytes(model);
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
  return describe(chunks, bytes);
}

}  // namespace pdl
