// A profile whose times can be added up by hand: 4 cards, layers of width 64, 32 to 256 rows.
//
//   layer    forward 1 us a row, backward 2 us a row (1 us without input gradient), accumulating or not
//   loss     10 us          optimizer and zero_grad   20 us and 5 us
//   transfer 3 us           step overhead             7 us          host: nothing else takes time
#pragma once

#include <algorithm>
#include <tuple>

#include "sim/cost/cost_profile.hpp"

namespace pdl {

inline CurvePoint tiny_point(std::int64_t size, double time_ns) {
  CurvePoint point;
  point.size = size;
  point.time_ns = point.p25_ns = point.p75_ns = time_ns;
  point.count = 10;
  point.warmup = 3;
  point.issue_ns = 0;
  return point;
}

inline Curve tiny_rows(double ns_per_row) {
  Curve curve;
  for (const std::int64_t rows : {32, 64, 128, 256})
    curve.points.push_back(tiny_point(rows, ns_per_row * static_cast<double>(rows)));
  return curve;
}

inline Curve tiny_constant(double time_ns) {
  Curve curve;
  for (const std::int64_t size : {std::int64_t{1}, std::int64_t{1} << 30})
    curve.points.push_back(tiny_point(size, time_ns));
  return curve;
}

inline CostProfile tiny_profile() {
  CostProfile profile;
  profile.name = "tiny";
  profile.environment = {{"device", "cuda"},
                         {"card", "Tiny GPU"},
                         {"count", 4},
                         {"date", "2026-01-02"},
                         {"memory_capacity_bytes", 1 << 30}};
  profile.host_description = {"cuda", "Tiny GPU", 4, "2026-01-02", 0, 1 << 30, {}, ""};
  const auto add = [&](MeasuredKey key, Curve curve) { profile.curves.push_back({key, std::move(curve)}); };
  for (const char* implementation : {"pipeline", "autograd"}) {
    MeasuredKey layer;
    layer.probe = Probe::layer;
    layer.implementation = implementation;
    layer.dtype = Dtype::fp32;
    layer.layer = linear_relu(64, 64);
    layer.operation = "forward";
    add(layer, tiny_rows(1000));
    layer.operation = "backward";
    for (const bool accumulate : {false, true}) {
      for (const bool input_gradient : {false, true}) {
        layer.accumulate = accumulate;
        layer.input_gradient = input_gradient;
        add(layer, tiny_rows(input_gradient ? 2000 : 1000));
      }
    }
    MeasuredKey other;
    other.implementation = implementation;
    other.probe = Probe::loss;
    other.dtype = Dtype::fp32;
    add(other, tiny_constant(10'000));
    other.dtype.reset();
    other.probe = Probe::zero_grad;
    add(other, tiny_constant(5'000));
    other.probe = Probe::optimizer;
    other.optimizer = "sgd";
    add(other, tiny_constant(20'000));
  }
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      MeasuredKey pair;
      pair.probe = Probe::transfer;
      pair.transport = "copy";
      pair.from = from;
      pair.to = to;
      if (from != to) add(pair, tiny_constant(3'000));
    }
  }
  std::sort(profile.curves.begin(), profile.curves.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  constexpr double kPicosecond = 0.001;  // a profile has no times of 0
  for (const auto& [name, transport, ns] :
       {std::tuple{"launch_latency", "", kPicosecond}, std::tuple{"step_overhead", "", 7000.0},
        std::tuple{"transfer_issue", "copy", kPicosecond}, std::tuple{"wait_issue", "copy", kPicosecond}}) {
    HostTime host;
    host.key.probe = Probe::host;
    host.key.name = name;
    host.key.transport = transport;
    host.time_ns = host.p25_ns = ns;
    host.count = 10;
    profile.host.push_back(host);
  }
  std::sort(profile.host.begin(), profile.host.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return profile;
}

}  // namespace pdl
