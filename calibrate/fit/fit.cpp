#include "calibrate/fit/fit.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>

#include "calibrate/fit/check_samples.hpp"
#include "calibrate/fit/layer_errors.hpp"
#include "calibrate/fit/line_fit.hpp"
#include "calibrate/fit/nccl_tests.hpp"
#include "calibrate/fit/product_fit.hpp"
#include "calibrate/fit/robust_curve.hpp"
#include "calibrate/fit/suspicion.hpp"
#include "sim/cost/beside_products.hpp"
#include "sim/cost/time_unit.hpp"
#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/statistics.hpp"

namespace pdl {
namespace {

constexpr double kSlowFirst = 2;           // times the median of the others: a warm-up that was not declared
constexpr double kWideSpread = 0.2;        // p75 - p25 over the median
constexpr std::size_t kMostSizes = 10000;  // of one curve

/// All measurements of one key, in nanoseconds, without warm-up.
struct Measurements {
  std::vector<double> times_ns;
  std::vector<double> issue_ns;
  std::vector<Kernel> kernels;
  std::int64_t warmup = 0;
  std::int64_t calls = 0;  // that the times are means of
};

/// Things of one kind that happened to several samples: told once, with how many and the first of them by key.
class Tally {
 public:
  void add(const MeasuredKey& key, const std::string& detail = "") {
    ++count_;
    if (count_ > 1 && !(key < first_)) return;
    first_ = key;
    detail_ = detail;
  }

  void tell(const std::string& what, std::vector<std::string>& texts) const {
    if (count_ == 0) return;
    texts.push_back(what + ": " + describe(first_) + detail_ +
                    (count_ > 1 ? " (and " + std::to_string(count_ - 1) + " more)" : ""));
  }

 private:
  std::size_t count_ = 0;
  MeasuredKey first_;
  std::string detail_;
};

/// What the user should hear of: doubts go into `warnings` and into every prediction, facts into `notes`.
struct Tallies {
  Tally no_warmup;
  Tally slow_first;
  Tally single;
  Tally spread;
  Tally no_issue;

  void tell(CostProfile& profile) const {
    no_warmup.tell("no warm-up (first calls are slower than the rest)", profile.warnings);
    slow_first.tell("first value dropped: far slower than the rest, though not declared as warm-up", profile.warnings);
    no_issue.tell("no host time of issue, taken as none", profile.warnings);
    single.tell("only one measurement", profile.notes);
    spread.tell("quartiles more than 20 % apart", profile.notes);
  }
};

std::vector<Kernel> kernels_ns(const Sample& sample, double factor) {
  std::vector<Kernel> kernels;
  for (const KernelSample& kernel : sample.kernels) {
    kernels.push_back({kernel.name, to_picoseconds(kernel.time * factor), kernel.blocks,
                       kernel.blocks_per_multiprocessor, kernel.count});
  }
  return kernels;
}

/// Some order, so that of several recordings of one operation the same one is kept whatever their order in the file.
bool kernels_less(const std::vector<Kernel>& a, const std::vector<Kernel>& b) {
  const auto fields = [](const Kernel& k) {
    return std::tie(k.name, k.time_ns, k.blocks, k.blocks_per_multiprocessor, k.count);
  };
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [&](const Kernel& x, const Kernel& y) { return fields(x) < fields(y); });
}

std::vector<double> after_warmup(const std::vector<double>& values, std::int64_t warmup, double factor) {
  std::vector<double> left;
  for (auto i = static_cast<std::size_t>(warmup); i < values.size(); ++i)
    left.push_back(to_picoseconds(values[i] * factor));
  return left;
}

void add_sample(const Sample& sample, Measurements& all, Tallies& tallies) {
  const double factor = ns_per_unit(sample.unit);
  std::vector<double> times = after_warmup(sample.values, sample.warmup, factor);
  all.warmup += sample.warmup;
  if (sample.warmup == 0 && sample.calls_before == 0) {
    tallies.no_warmup.add(sample.key);
    if (times.size() > 1 && times.front() > kSlowFirst * median({times.begin() + 1, times.end()})) {
      tallies.slow_first.add(sample.key);
      times.erase(times.begin());
      all.warmup += 1;
    }
  }
  all.calls += static_cast<std::int64_t>(times.size()) * sample.calls_a_value;
  all.times_ns.insert(all.times_ns.end(), times.begin(), times.end());
  const std::vector<double> issue = after_warmup(sample.issue_values, sample.warmup, factor);
  all.issue_ns.insert(all.issue_ns.end(), issue.begin(), issue.end());
  std::vector<Kernel> kernels = kernels_ns(sample, factor);
  if (!kernels.empty() && (all.kernels.empty() || kernels_less(kernels, all.kernels))) all.kernels = std::move(kernels);
}

std::string percent_text(double fraction) {
  char text[32];
  std::snprintf(text, sizeof text, ", %.0f %%", 100 * fraction);
  return text;
}

HostSpread host_spread(std::vector<double> times_ns) {
  std::sort(times_ns.begin(), times_ns.end());
  const auto at = [&](double fraction) { return to_picoseconds(quantile(times_ns, fraction)); };
  return {at(0.5), at(0.75), at(0.9), at(0.95)};
}

/// Kernels of a loss only move memory, which on an H200 has two speeds, by where the allocator happens to have put the
/// tensors: 1.65 GB were filled in 350 or in 386 us, and nothing in between (2026-11-30). In bf16 the same loss of
/// 412 million logits took 3.71 ms when it was measured and 3.47 when its kernels were recorded; of 1,648 million in
/// fp32 it was 14.2 and 15.6, the other way round. The faster one is the time: chance slows probes, and speeds up none.
void take_faster_recording(CurvePoint& point) {
  double recorded_ns = 0;
  for (const Kernel& kernel : point.kernels)
    recorded_ns += (kernel.time_ns + kLongestGap_ns) * static_cast<double>(kernel.count);
  if (recorded_ns <= 0 || recorded_ns >= point.time_ns) return;
  point.time_ns = to_picoseconds(recorded_ns);
  point.p25_ns = std::min(point.p25_ns, point.time_ns);
}

CurvePoint make_point(const MeasuredKey& key, Measurements& measured, Tallies& tallies) {
  std::sort(measured.times_ns.begin(), measured.times_ns.end());
  CurvePoint point;
  point.size = key.size;
  point.time_ns = to_picoseconds(quantile(measured.times_ns, 0.5));
  point.p25_ns = to_picoseconds(quantile(measured.times_ns, 0.25));
  point.p75_ns = to_picoseconds(quantile(measured.times_ns, 0.75));
  point.count = static_cast<std::int64_t>(measured.times_ns.size());
  point.warmup = measured.warmup;
  if (!measured.issue_ns.empty()) point.issue_ns = host_spread(measured.issue_ns);
  point.kernels = measured.kernels;
  if (key.probe == Probe::loss) take_faster_recording(point);
  if (measured.calls == 1) tallies.single.add(key);
  const double spread = (point.p75_ns - point.p25_ns) / point.time_ns;
  if (spread > kWideSpread) tallies.spread.add(key, percent_text(spread));
  return point;
}

/// Points of one key, ascending size, to a curve.
Curve make_curve(const MeasuredKey& key, std::vector<CurvePoint> points, const std::string& place) {
  if (points.size() > kMostSizes) {
    throw InputError(place + ": " + describe(key), std::to_string(points.size()) + " sizes",
                     "at most " + std::to_string(kMostSizes));
  }
  const Probe probe = key.probe;
  const bool no_shape =
      probe == Probe::layer || probe == Probe::overlap || probe == Probe::pause || probe == Probe::sustained;
  if (no_shape) return {std::move(points), {}, std::nullopt};
  RobustCurve robust = robust_curve(std::move(points));
  Curve curve{std::move(robust.points), std::move(robust.left_out), std::nullopt};
  curve.line = fit_line(curve.points);
  return curve;
}

MemoryConstant make_memory(const MeasuredKey& key, const Measurements& measured) {
  // Bytes were read as they are; half a byte can come from an even number of values.
  return {key, std::llround(median(measured.times_ns)), static_cast<std::int64_t>(measured.times_ns.size())};
}

}  // namespace

std::string profile_name(const Environment& environment) {
  std::string name;
  for (const char c : environment.card.empty() ? environment.device : environment.card) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool plain = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain) name += static_cast<char>(upper ? c - 'A' + 'a' : c);
    if (!plain && !name.empty() && name.back() != '-') name += '-';
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  if (name.empty()) name = "unnamed";
  return environment.count > 0 ? name + "-x" + std::to_string(environment.count) : name;
}

CostProfile fit_profile(const Samples& samples, const std::string& place, const std::string& name) {
  check_samples(samples, place);
  CostProfile profile;
  profile.environment = samples.environment;
  const JsonPlace environment(samples.environment, place + ": environment");
  profile.host_description = read_environment(environment);
  profile.name = name.empty() ? profile_name(profile.host_description) : name;

  Tallies tallies;
  std::map<MeasuredKey, Measurements> by_key;
  for (const Sample& sample : samples.samples) {
    Measurements& all = by_key[sample.key];
    if (sample.key.probe == Probe::memory) {
      const auto first = sample.values.begin() + static_cast<std::ptrdiff_t>(sample.warmup);
      all.times_ns.insert(all.times_ns.end(), first, sample.values.end());
    } else {
      add_sample(sample, all, tallies);
    }
  }

  std::map<MeasuredKey, std::vector<CurvePoint>> by_curve;
  const bool on_gpu = profile.host_description.device == "cuda";
  for (auto& [key, measured] : by_key) {
    if (key.probe == Probe::memory) {
      profile.memory.push_back(make_memory(key, measured));
      continue;
    }
    const CurvePoint point = make_point(key, measured, tallies);
    if (key.probe == Probe::host) {
      profile.host.push_back({key, host_spread(measured.times_ns), point.p25_ns, point.count, point.warmup});
      continue;
    }
    if (key.probe == Probe::layer && on_gpu && !point.issue_ns) tallies.no_issue.add(key);
    by_curve[curve_key(key)].push_back(point);
  }
  for (auto& [key, points] : by_curve) {
    profile.curves.push_back({key, make_curve(key, std::move(points), place)});
  }
  if (profile.curves.empty()) {
    throw InputError(place, "samples of host and memory only", "at least one of a layer, loss, optimizer or transfer");
  }
  refuse_faster_than_card(profile, place);
  if (!samples.products.empty()) {
    std::string card = profile.host_description.card;
    if (samples.environment.contains("products_of")) {
      const JsonPlace of(samples.environment.at("products_of"), place + ": environment: products_of");
      card = of.at("card").text();
      profile.notes.push_back("layers between the measured sizes: by matrix products measured on another host, " +
                              card);
    }
    profile.products = fit_products(samples.products, profile.host_description.multiprocessors, card);
    drop_unchosen_kernels(*profile.products);
    profile.layer_errors = layer_errors(profile);
  }
  profile.warnings = suspicions(profile);
  tallies.tell(profile);
  for (std::string& doubt : nccl_tests_doubts(environment)) profile.warnings.push_back(std::move(doubt));
  return profile;
}

}  // namespace pdl
