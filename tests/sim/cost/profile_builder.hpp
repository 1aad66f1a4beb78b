// Profiles for tests, line by line. Times in microseconds.
//
//   ProfileBuilder b;
//   b.layer("forward", 1024, {{32, 10}, {64, 20}});
//   b.transfer("copy", 0, 1, {{1024, 5}});
//   CostProfile profile = b.done();
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/cost/cost_profile.hpp"

namespace pdl {

struct ProfileBuilder {
  using Points = std::vector<std::pair<std::int64_t, double>>;

  CostProfile profile;

  ProfileBuilder() {
    profile.name = "test";
    profile.environment = {{"device", "cuda"}, {"card", "Test GPU"}, {"count", 2}};
    profile.host_description.device = "cuda";
    profile.host_description.card = "Test GPU";
    profile.host_description.count = 2;
  }

  Curve& add(const MeasuredKey& key, const Points& points) {
    Curve curve;
    for (const auto& [size, us] : points) {
      CurvePoint point;
      point.size = size;
      point.time_ns = point.p25_ns = point.p75_ns = us * 1e3;
      point.count = 5;
      curve.points.push_back(point);
    }
    profile.curves.push_back({key, curve});
    return profile.curves.back().curve;
  }

  static MeasuredKey layer_key(const std::string& operation, std::int64_t in, std::int64_t out, std::int64_t rows = 0) {
    MeasuredKey key;
    key.probe = Probe::layer;
    key.implementation = "pipeline";
    key.operation = operation;
    key.dtype = Dtype::fp32;
    key.layer = linear_relu(in, out);
    key.size = rows;
    return key;
  }

  Curve& layer(const std::string& operation, std::int64_t dim, const Points& points) {
    return add(layer_key(operation, dim, dim), points);
  }

  Curve& loss(const Points& points) {
    MeasuredKey key;
    key.probe = Probe::loss;
    key.implementation = "pipeline";
    key.dtype = Dtype::fp32;
    return add(key, points);
  }

  Curve& optimizer(const std::string& name, const Points& points) {
    MeasuredKey key;
    key.probe = Probe::optimizer;
    key.implementation = "pipeline";
    key.optimizer = name;
    return add(key, points);
  }

  Curve& transfer(const std::string& transport, std::int64_t from, std::int64_t to, const Points& points) {
    MeasuredKey key;
    key.probe = Probe::transfer;
    key.transport = transport;
    key.from = from;
    key.to = to;
    return add(key, points);
  }

  HostTime& host(const std::string& name, double us) {
    HostTime host;
    host.key.probe = Probe::host;
    host.key.name = name;
    host.time_ns = host.p25_ns = us * 1e3;
    host.count = 5;
    profile.host.push_back(host);
    return profile.host.back();
  }

  /// Every host constant that a price asks for, at no time worth mentioning.
  void quiet_host() {
    for (const char* name : {"step_overhead", "transfer_issue", "wait_issue", "launch_latency"}) host(name, 0);
  }

  CostProfile done() {
    std::sort(profile.curves.begin(), profile.curves.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    std::sort(profile.host.begin(), profile.host.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    return profile;
  }
};

}  // namespace pdl
