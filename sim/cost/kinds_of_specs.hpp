// What a profile must be able to price, of any number of specs: those that differ in sizes only are one kind. A million
// rows of a sweep are a few kinds.
//
//   KindsOfSpecs kinds;
//   for (...) kinds.add(spec);
//   const CostProfile costs = load_default_profile(kinds);
//
// Not here: specs that have no plan; they are refused whatever the profile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// Specs of a kind: one of them is priced for all. What a profile lacks is a kind of operation; sizes are extrapolated.
struct SpecKind {
  std::optional<Plan> plan;  // nothing: none of them has had one
  std::size_t rows = 0;      // specs with a plan
};

class KindsOfSpecs {
 public:
  void add(RunSpec spec);

  const std::map<std::string, SpecKind>& all() const { return kinds_; }

  /// What is beyond what every profile has, for people: "collectives", "collectives and layers in tf32"; or nothing.
  /// Every profile has the layers of `mlp`.
  std::string needs_text() const;

  /// Data types of tensor cores, all but fp32, each once.
  const std::vector<Dtype>& dtypes() const { return dtypes_; }

  /// Of the largest mesh.
  std::int64_t most_gpus() const { return most_gpus_; }

 private:
  std::map<std::string, SpecKind> kinds_;
  bool collectives_ = false;
  std::int64_t most_gpus_ = 1;
  std::vector<Dtype> dtypes_;             // but fp32, as they come
  std::vector<const LayerKind*> layers_;  // but those of `mlp` and of transformers, as they come
  bool transformers_ = false;
};

/// One profile for all of them: as for a list of specs (sim/cost/cost_profile.hpp).
CostProfile load_default_profile(const KindsOfSpecs& kinds);

}  // namespace pdl
