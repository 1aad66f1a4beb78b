// From samples to a profile: medians, curves, lines, and what is wrong with the measurements.
//
//   CostProfile profile = fit_profile(load_samples("samples.json"));
//   save_profile(profile, "profile.json");
//
// Every key is reduced to its median and quartiles, without its warm-up. Layers keep every measured shape as it is.
// Everything else is a curve over one size: points that cannot be right are left out (robust_curve.hpp) and named, the
// rest is smoothed within its noise, and a straight line is fitted beside it with its residuals (line_fit.hpp).
// The same samples in any order and in any unit give the same profile, byte for byte. Never sees measured runs.
#pragma once

#include <string>

#include "calibrate/fit/samples.hpp"
#include "sim/cost/cost_profile.hpp"

namespace pdl {

/// `place` opens messages: the name of the samples' file. `name` of the profile; empty: from the environment.
/// Throws InputError as check_samples (samples of a file were checked when read) and if something is faster than the
/// card can be.
CostProfile fit_profile(const Samples& samples, const std::string& place = "samples", const std::string& name = "");

/// "nvidia-h100-80gb-hbm3-x4": card (or device) and count, as a name for a folder.
std::string profile_name(const Environment& environment);

}  // namespace pdl
