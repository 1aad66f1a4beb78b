#include "calibrate/fit/suspicion.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "sim/cost/card_limits.hpp"
#include "sim/cost/layer_time.hpp"
#include "sim/io/error.hpp"

namespace pdl {
namespace {

constexpr double kMuchMore = 100;      // times the work ...
constexpr double kHardlyLonger = 1.5;  // ... in less than this many times the time: flat
constexpr double kShorterThanKernels = 1.25;
constexpr double kColdKernel_ns = 5e3;  // a kernel that is recorded once finds the caches empty

// Below these sizes a latency may well hide all growth.
constexpr std::int64_t kManyBytes = std::int64_t{1} << 20;
constexpr std::int64_t kManyNumbers = 1000000;

// Sizes that do not fit into a cache on the card.
constexpr double kBytesBeyondCaches = 256e6;

std::string text_of(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string us_text(double ns) {
  return text_of("%.4g us", ns / 1e3);
}

MeasuredKey at(MeasuredKey key, std::int64_t size) {
  key.size = size;
  return key;
}

double measured_ns(const CurvePoint& point) {
  return point.median_ns.value_or(point.time_ns);
}

struct Rate {
  double per_s;
  double limit_per_s;
  const char* unit;
  std::string of;  // "the peak of H100 (fp32)"
};

/// Bytes that must pass between one card and the others, one way, over the bytes of the buffer, whatever the algorithm.
/// An all-reduce by a ring moves 2 (n - 1) / n, but switches that add up (NVLS) need each card's bytes only once in
/// each direction, and have been measured above the links' rate in terms of the ring.
double least_share(const std::string& operation, std::int64_t ranks) {
  const double n = static_cast<double>(ranks);
  if (operation == "all_gather" || operation == "reduce_scatter") return (n - 1) / n;
  return operation == "all_reduce" || operation == "broadcast" || operation == "reduce" ? 1 : 0;
}

std::optional<Rate> rate(const MeasuredKey& key, double time_ns, const CardLimits& limits) {
  const double seconds = time_ns / 1e9;
  const double size = static_cast<double>(key.size);
  if (key.probe == Probe::layer && key.layer.kind->scaling == LayerScaling::row_wise) {
    if (limits.memory_bytes_per_s <= 0 || layer_bytes(key) <= kBytesBeyondCaches) return std::nullopt;
    return Rate{layer_bytes(key) / seconds, limits.memory_bytes_per_s, "B/s",
                "what the memory of " + limits.card + " delivers"};
  }
  if (key.probe == Probe::layer && key.dtype && limits.flops_per_s.contains(*key.dtype)) {
    return Rate{layer_flops(key) / seconds, limits.flops_per_s.at(*key.dtype), "FLOP/s",
                "the peak of " + limits.card + " (" + dtype_word(key) + ")"};
  }
  if (key.probe == Probe::transfer && key.transport != "gloo" && limits.link_bytes_per_s > 0) {
    return Rate{size / seconds, limits.link_bytes_per_s, "B/s", "what a link of " + limits.card + " carries one way"};
  }
  if (key.probe == Probe::collective && key.transport != "gloo" && key.ranks > 1 && limits.link_bytes_per_s > 0) {
    return Rate{size * least_share(key.operation, key.ranks) / seconds, limits.link_bytes_per_s,
                "B/s into or out of a GPU", "what the links of " + limits.card + " carry one way"};
  }
  // A step of SGD reads weights and gradients and writes weights, 4 bytes each; an unscale reads and writes gradients.
  const double bytes = key.optimizer == "unscale" ? 8 * size : 12 * size;
  if (key.probe == Probe::optimizer && limits.memory_bytes_per_s > 0 && bytes > kBytesBeyondCaches) {
    return Rate{bytes / seconds, limits.memory_bytes_per_s, "B/s", "what the memory of " + limits.card + " delivers"};
  }
  return std::nullopt;
}

// ---- flat times

/// One measurement, as work and time.
struct Effort {
  double work;
  double bytes;  // moved; grows too where more work must take longer
  double time_ns;
  MeasuredKey key;
};

/// Two measurements of which the second does a hundred times the work in hardly more time.
std::optional<std::pair<Effort, Effort>> find_flat(const std::vector<Effort>& efforts) {
  constexpr std::size_t kMostCompared = 3000;
  const std::size_t stride = 1 + efforts.size() / kMostCompared;
  std::optional<std::pair<Effort, Effort>> worst;
  for (std::size_t i = 0; i < efforts.size(); i += stride) {
    for (std::size_t j = 0; j < efforts.size(); j += stride) {
      const Effort& less = efforts[i];
      const Effort& more = efforts[j];
      if (more.work < kMuchMore * less.work || more.bytes < less.bytes) continue;
      if (more.time_ns >= kHardlyLonger * less.time_ns) continue;
      if (!worst || more.work / less.work > worst->second.work / worst->first.work) worst = {less, more};
    }
  }
  return worst;
}

/// The time that cannot be wrong for want of a synchronisation where it is known: of the kernels themselves. 0: not
/// known.
double trusted_ns(const CurvePoint& point) {
  double kernels_ns = 0;
  for (const Kernel& kernel : point.kernels) kernels_ns += kernel.time_ns * static_cast<double>(kernel.count);
  return kernels_ns;
}

/// Curves whose times can be compared: layers of one kind whatever their shape, else each curve by itself.
MeasuredKey comparable(MeasuredKey key) {
  key.layer.sizes = {};
  return key;
}

void add_efforts(const MeasuredCurve& measured, std::vector<Effort>& efforts) {
  const Probe probe = measured.key.probe;
  const bool in_bytes = probe == Probe::transfer || probe == Probe::collective;
  for (const CurvePoint& point : measured.curve.points) {
    // Kernels that were recorded have been waited for, however flat they are (under autocast the casts of weights are).
    if (trusted_ns(point) > 0) continue;
    const MeasuredKey key = at(measured.key, point.size);
    const bool row_wise = probe == Probe::layer && key.layer.kind->scaling == LayerScaling::row_wise;
    if (row_wise && point.size * output_numbers(key.layer) < kManyNumbers) continue;
    if (probe == Probe::layer && layer_flops(key) == 0) continue;  // the input gradient of a first linear: nothing
    if (probe == Probe::layer) {
      efforts.push_back({layer_flops(key), layer_bytes(key), measured_ns(point), key});
    } else if (point.size >= (in_bytes ? kManyBytes : kManyNumbers)) {
      const double size = static_cast<double>(point.size);
      efforts.push_back({size, size, measured_ns(point), key});
    }
  }
}

std::vector<std::string> flat_times(const CostProfile& profile) {
  std::map<MeasuredKey, std::vector<Effort>> groups;
  for (const MeasuredCurve& measured : profile.curves) {
    // Gradients set to none take no time however many they are; a pause is no work; what is sustained was judged as
    // a layer; a layer beside messages is the same whatever their size.
    const Probe probe = measured.key.probe;
    if (probe == Probe::zero_grad || probe == Probe::pause || probe == Probe::sustained) continue;
    if (probe == Probe::overlap && measured.key.name.starts_with("compute")) continue;
    add_efforts(measured, groups[comparable(measured.key)]);
  }
  std::vector<std::string> texts;
  for (const auto& [key, efforts] : groups) {
    const auto flat = find_flat(efforts);
    if (!flat) continue;
    const auto& [less, more] = *flat;
    texts.push_back("not synchronised? " + describe(more.key) + " takes " + us_text(more.time_ns) + ", and " +
                    describe(less.key) + " " + us_text(less.time_ns) + ", for " +
                    text_of("%.0f", more.work / less.work) + " times the work");
  }
  return texts;
}

std::vector<std::string> shorter_than_kernels(const CostProfile& profile) {
  std::vector<std::string> texts;
  std::size_t count = 0;
  for (const MeasuredCurve& measured : profile.curves) {
    for (const CurvePoint& point : measured.curve.points) {
      // A pipeline's backward may run on two streams at once. In a stage of several layers a kernel has others beside
      // it from its begin to its end, and lasts the longer for it: its time says nothing.
      const bool two_streams = measured.key.implementation == "pipeline" && measured.key.operation == "backward";
      if (two_streams && measured.key.layers > 1) continue;
      const double at_once = two_streams ? 2 : 1;
      if (trusted_ns(point) <= at_once * kShorterThanKernels * measured_ns(point) + kColdKernel_ns) continue;
      if (count++ > 0) continue;
      texts.push_back("not synchronised? " + describe(at(measured.key, point.size)) + " takes " +
                      us_text(measured_ns(point)) + ", less than its kernels, " + us_text(trusted_ns(point)));
    }
  }
  if (count > 1) texts.back() += " (and " + std::to_string(count - 1) + " more such measurements)";
  return texts;
}

}  // namespace

void refuse_faster_than_card(const CostProfile& profile, const std::string& place) {
  const std::optional<CardLimits> limits = limits_of(profile.host_description);
  if (!limits) return;
  for (const MeasuredCurve& measured : profile.curves) {
    for (const CurvePoint& point : measured.curve.points) {
      const MeasuredKey key = at(measured.key, point.size);
      // A quarter of the measurements that cannot be is enough.
      const std::optional<Rate> found = rate(key, point.p25_ns, *limits);
      if (!found || found->per_s <= found->limit_per_s) continue;
      throw InputError(place + ": " + describe(key),
                       us_text(point.p25_ns) + ", " + text_of("%.3g ", found->per_s) + found->unit,
                       "at most " + text_of("%.3g ", found->limit_per_s) + found->unit + ", " + found->of +
                           " (not synchronised, or another unit?)");
    }
  }
}

std::vector<std::string> suspicions(const CostProfile& profile) {
  std::vector<std::string> texts = flat_times(profile);
  if (const auto limits = limits_of(profile.host_description); limits && !limits->known) {
    const std::string& card = profile.host_description.card;
    texts.push_back("speeds were held only against what no GPU reaches: nothing is known of " +
                    (card.empty() ? "a GPU without a name" : card) +
                    " (peak_flops_per_s in the environment of the samples would say it)");
  }
  for (std::string& text : shorter_than_kernels(profile)) texts.push_back(std::move(text));
  return texts;
}

}  // namespace pdl
