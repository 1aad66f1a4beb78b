// Samples of a file, and what was measured of a plan's own shapes afterwards: one set of samples, fitted together.
//
//   check_same_card(known.environment, now, "samples.json");    // before minutes are spent on measuring
//   Samples all = with_added(known, added);                     // environment: that of the file, with "added"
//
// Both are of one card with the same library versions; how many GPUs were measured may differ. Not here: which shapes
// are missing (calibrate/probe/probe_shapes.hpp).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "calibrate/fit/samples.hpp"

namespace pdl {

/// Throws InputError naming `place` and what was found: another device, card, number of multiprocessors, or version of
/// CUDA, NCCL or Torch; on CPU another processor. Without `same_versions`, as host times of Python have versions of
/// their own, those of libraries may differ.
void check_same_card(const nlohmann::json& of_file, const nlohmann::json& now, const std::string& place,
                     bool same_versions = true);

/// The samples of the file, then those added. Environment: that of the file; its list "added" gets date, count, command
/// and probe_seconds of those added, and the versions of Python where its host times are, which are in the place of
/// those of the file.
Samples with_added(Samples of_file, const Samples& added);

}  // namespace pdl
