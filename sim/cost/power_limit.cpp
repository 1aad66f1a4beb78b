#include "sim/cost/power_limit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "sim/cost/layer_time.hpp"
#include "sim/cost/probe_clock.hpp"

namespace pdl {
namespace {

/// An operation alone: logarithms.
struct Observed {
  double flops_per_s = 0;  // at full clock
  double slowdown = 0;
};

/// How much longer a layer takes sustained than at full clock: of the sizes that were measured both ways.
std::map<MeasuredKey, Observed> observations_of(const CostProfile& profile, Dtype dtype) {
  std::map<MeasuredKey, Observed> all;
  for (const MeasuredCurve& sustained : profile.of(Probe::sustained)) {
    if (sustained.key.dtype != dtype) continue;
    MeasuredKey key = sustained.key;
    key.probe = Probe::layer;
    const Curve* in_short_series = profile.find(key);
    if (!in_short_series) continue;
    for (const CurvePoint& point : sustained.curve.points) {
      for (const CurvePoint& full : in_short_series->points) {
        if (full.size != point.size) continue;
        key.size = point.size;
        const double ns = full.time_ns * at_full_clock(profile, key, full.kernels);
        all[key] = {std::log(layer_flops(key) / (ns * 1e-9)), std::log(point.time_ns / ns)};
      }
    }
  }
  return all;
}

/// In bf16 a product of two numbers draws no more than in fp16: the kernels are the same, and what they multiply has 8
/// bits in place of 11. That is an assumption: of six probes on an H200 four slowed down by 1 % less in bf16, two by 1
/// and 5 % more, which is laid on a warmer card (2026-11-30). Probes of both in turn, still with these two, refute it.
std::vector<Observed> observations(const CostProfile& profile, Dtype dtype) {
  std::map<MeasuredKey, Observed> of_fp16;
  if (dtype == Dtype::amp_bf16) of_fp16 = observations_of(profile, Dtype::amp_fp16);
  std::vector<Observed> all;
  for (auto& [key, observed] : observations_of(profile, dtype)) {
    MeasuredKey in_fp16 = key;
    in_fp16.dtype = Dtype::amp_fp16;
    const auto found = of_fp16.find(in_fp16);
    all.push_back(observed);
    if (found != of_fp16.end()) all.back().slowdown = std::min(all.back().slowdown, found->second.slowdown);
  }
  return all;
}

double said(const Observed& observed, double log_limit, double exponent) {
  return std::max(0.0, exponent * (observed.flops_per_s - log_limit));
}

double error(const std::vector<Observed>& all, double log_limit, double exponent) {
  double sum = 0;
  for (const Observed& observed : all) sum += std::abs(observed.slowdown - said(observed, log_limit, exponent));
  return sum;
}

}  // namespace

/// Least absolute errors, over a grid: the line has a kink, and there are a dozen points.
PowerLimit::PowerLimit(const CostProfile& profile, Dtype dtype) {
  constexpr double kSlows = 0.02;  // a card that slows by less has no limit that can be told from noise
  constexpr double kStep = 0.01;
  constexpr double kBelow = 1;  // a card whose every probe is slowed has its limit below them: down to 1/e
  constexpr std::ptrdiff_t kEnough = 2;
  const std::vector<Observed> all = observations(profile, dtype);
  known_ = !all.empty();
  const auto flops = [](const Observed& a, const Observed& b) { return a.flops_per_s < b.flops_per_s; };
  const auto slowed = [](const Observed& observed) { return observed.slowdown >= kSlows; };
  const std::ptrdiff_t count = std::count_if(all.begin(), all.end(), slowed);
  if (count < kEnough) {
    known_ = known_ && count == 0;  // one says that there is a limit, and not which
    return;
  }
  const auto [least, most] = std::minmax_element(all.begin(), all.end(), flops);
  double best = std::numeric_limits<double>::infinity();
  for (double log_limit = least->flops_per_s - kBelow; log_limit < most->flops_per_s; log_limit += kStep) {
    for (double exponent = kStep; exponent <= PowerLimit::kLargestExponent; exponent += kStep) {
      const double off = error(all, log_limit, exponent);
      if (off >= best) continue;
      best = off;
      flops_per_s_ = std::exp(log_limit);
      exponent_ = exponent;
    }
  }
}

double PowerLimit::slowdown(double mean_flops_per_s, double share) const {
  if (exponent_ <= 0 || mean_flops_per_s <= flops_per_s_) return 1;
  const double over = mean_flops_per_s / flops_per_s_;
  double least = 1, most = over;  // what is needed grows with s, and is at least s
  for (int halving = 0; halving < 60; ++halving) {
    const double s = (least + most) / 2;
    const double needs = std::pow(s, 1 / exponent_ - 1) * (1 + share * (s - 1));
    (needs < over ? least : most) = s;
  }
  return (least + most) / 2;
}

}  // namespace pdl
