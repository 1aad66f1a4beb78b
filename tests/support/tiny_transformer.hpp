// A transformer whose FLOPs and times can be added up by hand: sequences of 4 tokens, 16 features, 2 heads, of 50
// tokens that there are; a block has 2,048 parameters in products, the head 800.
//
//   const RunSpec run = tiny_transformer("--strategy single --gpus 1 --batch 2", 3);
//   const CostProfile profile = profile_of(run, 2);  // what is inside of its layers, for 2 samples: forward 10 us,
//                                                    // backward 20 us each; loss 30 us, optimizer 50 us, transfer 5 us
#pragma once

#include <algorithm>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/model/inner_layers.hpp"
#include "tests/support/layer_models.hpp"
#include "tests/support/specs.hpp"

namespace pdl {

inline RunSpec tiny_transformer(const std::string& flags, int blocks) {
  std::vector<Layer> layers = {{find_layer_kind("gpt_embedding"), {50, 8, 16, 4, 0, 0}}};
  for (int b = 0; b < blocks; ++b) layers.push_back({find_layer_kind("gpt_block"), {16, 2, 32, 4, 0, 0}});
  layers.push_back({find_layer_kind("gpt_head"), {16, 50, 4, 0, 0, 0}});
  RunSpec run = with_layers(spec(flags + " --depth " + std::to_string(layers.size())), layers);
  run.model.loss = Loss::cross_entropy;
  return run;
}

inline Curve curve_of_one(std::int64_t size, double us) {
  Curve curve;
  CurvePoint& point = curve.points.emplace_back();
  point.size = size;
  point.time_ns = point.p25_ns = point.p75_ns = us * 1e3;
  point.count = 5;
  return curve;
}

/// Of NVIDIA H200, without host times. In fp32, for micro-batches of `rows` samples.
inline CostProfile profile_of(const RunSpec& run, std::int64_t rows) {
  CostProfile profile;
  profile.name = "test";
  profile.environment = {{"device", "cuda"}, {"card", "NVIDIA H200"}, {"count", 2}};
  profile.host_description.device = "cuda";
  profile.host_description.card = "NVIDIA H200";
  profile.host_description.count = 2;
  const auto add = [&](const MeasuredKey& key, const Curve& curve) {
    const auto same = std::find_if(profile.curves.begin(), profile.curves.end(),
                                   [&](const MeasuredCurve& measured) { return measured.key == key; });
    if (same == profile.curves.end()) profile.curves.push_back({key, curve});
  };
  const ModelLeaves leaves = leaves_of(run.model.layers, Dtype::fp32, activation_number_bytes(run.model, Dtype::fp32));
  for (const char* implementation : {"autograd", "pipeline"}) {
    for (const Leaf& leaf : leaves.all) {
      MeasuredKey key;
      key.probe = Probe::layer;
      key.implementation = implementation;
      key.dtype = Dtype::fp32;
      key.layer = leaf.layer;
      key.operation = "forward";
      add(key, curve_of_one(rows * leaf.rows, 10));
      key.operation = "backward";
      for (const bool accumulate : {false, true}) {
        for (const bool input_gradient : {false, true}) {
          key.accumulate = accumulate;
          key.input_gradient = input_gradient;
          add(key, curve_of_one(rows * leaf.rows, 20));
        }
      }
    }
    MeasuredKey other;
    other.implementation = implementation;
    other.probe = Probe::loss;
    other.dtype = Dtype::fp32;
    if (run.model.loss == Loss::cross_entropy) other.name = kCrossEntropy;
    add(other, curve_of_one(rows * output_numbers(run.model), 30));
    other.name.clear();
    other.dtype.reset();
    other.probe = Probe::optimizer;
    other.optimizer = "sgd";
    Curve curve = curve_of_one(1, 50);
    curve.points.push_back(curve_of_one(1 << 30, 50).points.front());
    add(other, curve);
  }
  for (const int from : {0, 1}) {
    MeasuredKey pair;
    pair.probe = Probe::transfer;
    pair.transport = "copy";
    pair.from = from;
    pair.to = 1 - from;
    add(pair, curve_of_one(rows * 4 * 16 * kBytesPerNumber, 5));
  }
  std::sort(profile.curves.begin(), profile.curves.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return profile;
}

}  // namespace pdl
