// A part of a calibration: what is measured in one go, and measured again where it was interrupted.
//
//   {"compute fp32 4096", 12.5, [](const Collect& collect, const Progress& progress) { ...; collect(sample); ... }}
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "calibrate/fit/samples.hpp"

namespace pdl {

/// Takes what was measured.
struct Collect {
  std::function<void(Sample)> sample;
  std::function<void(const ProductSamples&)> products;
  void operator()(Sample measured) const { sample(std::move(measured)); }
  void operator()(const ProductSamples& measured) const { products(measured); }
};

/// The fraction of the part that is done, 0 to 1, and what is measured now.
using Progress = std::function<void(double fraction, const std::string& what)>;

/// The share of the usual repetitions that there is time for, 0 to 1 (calibrate/probe/pace.hpp).
using Pace = std::function<double()>;

struct ProbePart {
  std::string name;
  double share = 0;  // of the time of all parts, in any unit
  std::function<void(const Collect&, const Progress&)> run;
};

}  // namespace pdl
