// A profile: what every operation costs on one machine, fitted from its samples by pdl-calibrate.
//
//   CostProfile profile = load_profile("h100x4");                 // data/h100x4/profile.json
//   profile.find({.probe = Probe::layer, .implementation = "pipeline", ...})   // a curve over rows, or nullptr
//
// Plain values: curves by key (sim/cost/measured_key.hpp), constants of the host, constants of memory, where it was
// measured, and what the fit had to warn about. Units: nanoseconds, bytes. The file is described in
// docs/formats-profile.md. Not here: how a plan is priced (sim/cost/price.hpp), fitting (calibrate/fit).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/cost/curve.hpp"
#include "sim/cost/environment.hpp"
#include "sim/cost/measured_key.hpp"
#include "sim/cost/product_model.hpp"
#include "sim/cost/products_of_profile.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

struct MeasuredCurve {
  MeasuredKey key;  // without a size
  Curve curve;
};

struct HostTime {
  MeasuredKey key;
  HostSpread time_ns;
  double p25_ns = 0;
  std::int64_t count = 0;
  std::int64_t warmup = 0;
};

struct MemoryConstant {
  MeasuredKey key;
  std::int64_t bytes = 0;  // median
  std::int64_t count = 0;
};

/// How far off an operation of a layer may be where it was not measured: 90 % of sizes that were held back lie within.
/// Short operations, and those for whose sizes the library was not asked which kernel it takes, are farther off.
struct LayerError {
  std::string implementation;
  Dtype dtype = Dtype::fp32;
  bool asked = true;        // the library was asked for such sizes (ModelledOperation::covered)
  double from_ns = 0;       // of operations that take at least so long: of several the one with most of it counts
  double half_width = 0;    // relative
  std::int64_t probes = 0;  // operations that were held back
};

struct CostProfile {
  std::string name;
  nlohmann::json environment = nlohmann::json::object();  // as in the samples
  Environment host_description;                           // the keys of it that mean something to us
  std::vector<MeasuredCurve> curves;                      // ascending keys, each once
  std::vector<HostTime> host;                             // ascending keys, each once
  std::vector<MemoryConstant> memory;                     // ascending keys, each once
  ProductsOfProfile products;                             // of sizes that were not measured
  std::vector<LayerError> layer_errors;                   // of the same; empty: not known
  std::vector<std::string> warnings;                      // doubts of the fit: part of every prediction
  std::vector<std::string> notes;                         // facts of the fit: wide spread, single values
  /// Not in the file: why this one, where the user named none: "the largest host in data/". Part of every prediction.
  std::string chosen_as;

  /// nullptr if there is none. `key` without a size.
  const Curve* find(const MeasuredKey& key) const;

  /// The curves of one probe, ascending keys.
  std::span<const MeasuredCurve> of(Probe probe) const;
};

nlohmann::ordered_json to_json(const CostProfile& profile);

/// Throws InputError with the place in the file: unknown or missing keys, missing or unknown units, times that are not
/// positive and finite, points given twice, no curve at all. Rows may be in any order: the result is the same.
CostProfile profile_from_json(const nlohmann::json& document, const std::string& place);

/// The same of a file's text, which must be JSON; of a file that has its checksum the products, which are most of it,
/// are read when they are asked for: it is as it was written.
CostProfile profile_from_text(std::string text, const std::string& place);

/// A name (a folder of data/) or a path (has a '/' or ends in .json; a folder with a profile.json in it will do).
/// Throws InputError: no such profile (the message lists those there are), or as profile_from_json.
CostProfile load_profile(const std::string& name_or_path);

/// The file: its head, with a checksum of the rest, on the first line, then an entry a line.
std::string profile_text(const CostProfile& profile);

/// The environment of a file that has its checksum: it is as it was written, and need not be read whole for that.
/// Nothing for other files (written by hand, by an older version, cut off): they must be.
std::optional<Environment> checked_environment(const std::string& text, const std::string& place);

/// Writes profile_text(), whole or not at all. Throws InputError if it cannot be written.
void save_profile(const CostProfile& profile, const std::string& path);

struct ProfileSummary {
  std::string name;  // of the folder
  std::string path;
  Environment environment;
  std::string error;  // why it cannot be read; empty: it can
};

/// The folders that hold profiles: $PDL_DATA, so that a profile of the user's goes before a bundled one of the same
/// name, then the bundled data/ (sim/io/installation.hpp), if it is there. Throws InputError if $PDL_DATA is no folder.
std::vector<std::string> profile_folders();

/// What to say where $PDL_DATA is a folder without a NAME/profile.json: only bundled profiles are found. Else empty.
std::string folder_without_profiles();

/// All profiles of those folders by name; a name that is in several is the first one's.
std::vector<ProfileSummary> list_profiles();

/// Those of them that can be read, the largest host first: GPUs before CPUs, then the larger count, then the first
/// name. Never empty: throws InputError if there is none.
std::vector<ProfileSummary> profiles_by_preference(std::vector<ProfileSummary> all);

/// The first of them, of all that there are, and its errors.
std::string default_profile_name();

/// A profile that the user did not name: why it was taken of `all`, with a warning for each of them that cannot be
/// read.
void say_chosen(CostProfile& profile, const std::string& reason, const std::vector<ProfileSummary>& all);

/// One profile for all of them: the first in the same order that can price every spec; where none can, the one that can
/// price most, and pricing says of the others what is missing. On tensor cores, of those that can price every spec: the
/// first that also knows the power limit and has the GPUs asked for. It is say_chosen(). A spec that has no plan counts
/// for none.
CostProfile load_default_profile(std::span<const RunSpec> specs);

}  // namespace pdl
