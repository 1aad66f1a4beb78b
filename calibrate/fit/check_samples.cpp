#include "calibrate/fit/check_samples.hpp"

#include <cmath>

#include "sim/cost/curve.hpp"
#include "sim/cost/time_unit.hpp"
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

std::string number_text(double value) {
  return std::isfinite(value) ? to_text(value) : std::isnan(value) ? "NaN" : "inf";
}

/// One sample and where it is.
struct Checker {
  const Sample& sample;
  std::string place;  // "samples.json: samples[3]"

  std::string at(const std::string& what) const { return place + what + " (" + describe(sample.key) + ")"; }

  void values_left(const std::vector<double>& values, const char* name) const {
    if (static_cast<std::int64_t>(values.size()) > sample.warmup) return;
    throw InputError(at(std::string(".") + name),
                     std::to_string(values.size()) + " values, " + std::to_string(sample.warmup) + " of them warm-up",
                     "at least one measurement after the warm-up");
  }

  void time(double value, double factor, bool may_be_zero, const std::string& what) const {
    const double ns = to_picoseconds(value * factor);
    if (std::isfinite(value) && (ns > 0 || (may_be_zero && ns == 0)) && ns <= kLongestTime_ns) return;
    const bool too_long = std::isfinite(value) && ns > kLongestTime_ns;
    throw InputError(at(what), number_text(value),
                     too_long      ? "a time of at most 1e6 s"
                     : may_be_zero ? "a finite time, not negative"
                                   : "a positive, finite time");
  }

  void times() const {
    const double factor = ns_per_unit(sample.unit);
    if (factor == 0) throw InputError(at(".unit"), "\"" + sample.unit + "\"", "ns, us, ms or s");
    values_left(sample.values, "values");
    for (std::size_t i = 0; i < sample.values.size(); ++i) {
      time(sample.values[i], factor, false, ".values[" + std::to_string(i) + "]");
    }
    if (!sample.issue_values.empty()) values_left(sample.issue_values, "issue_values");
    for (std::size_t i = 0; i < sample.issue_values.size(); ++i) {
      time(sample.issue_values[i], factor, true, ".issue_values[" + std::to_string(i) + "]");
    }
    for (std::size_t i = 0; i < sample.kernels.size(); ++i) {
      const KernelSample& kernel = sample.kernels[i];
      const std::string what = ".kernels[" + std::to_string(i) + "]";
      time(kernel.time, factor, false, what + ".time");
      if (kernel.count < 1 || kernel.count > kMostKernelLaunches) {
        throw InputError(at(what + ".count"), std::to_string(kernel.count),
                         "1 to " + std::to_string(kMostKernelLaunches));
      }
      if (kernel.blocks < 0 || kernel.blocks_per_multiprocessor < 0) {
        throw InputError(at(what), "a negative number of blocks", "0 or more");
      }
    }
  }

  void bytes() const {
    if (sample.unit != "bytes") throw InputError(at(".unit"), "\"" + sample.unit + "\"", "\"bytes\"");
    values_left(sample.values, "values");
    for (std::size_t i = 0; i < sample.values.size(); ++i) {
      const double value = sample.values[i];
      if (std::isfinite(value) && value >= 0 && value <= 0x1p60 && value == std::floor(value)) continue;
      throw InputError(at(".values[" + std::to_string(i) + "]"), number_text(value),
                       "a whole number of bytes from 0 to 2^60");
    }
  }
};

}  // namespace

void check_samples(const Samples& samples, const std::string& place) {
  if (samples.samples.empty()) throw InputError(place + ": samples", "an empty list", "at least one sample");
  for (std::size_t i = 0; i < samples.samples.size(); ++i) {
    const Sample& sample = samples.samples[i];
    const Checker checker{sample, place + ": samples[" + std::to_string(i) + "]"};
    check_key(sample.key, checker.place);
    if (sample.warmup < 0) throw InputError(checker.at(".warmup"), std::to_string(sample.warmup), "0 or more");
    if (sample.key.probe == Probe::memory) {
      checker.bytes();
    } else {
      checker.times();
    }
  }
}

}  // namespace pdl
