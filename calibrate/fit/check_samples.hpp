// What no measurement can be, whoever made it: a file or a probe of this process.
//
//   check_samples(samples, "samples.json")
//   -> InputError "samples.json: samples[3].values[1] (layer pipeline forward fp32 4096x4096, rows 512): found -3,
//                  expected a positive, finite time"
#pragma once

#include <string>

#include "calibrate/fit/samples.hpp"

namespace pdl {

/// Throws InputError naming the sample and the value: no samples; a key that check() refuses; a unit that is not one;
/// NaN, infinite, negative or zero times; nothing left after the warm-up; bytes that are not whole.
void check_samples(const Samples& samples, const std::string& place);

}  // namespace pdl
