// Do predictions tell which of several plans is the fastest? Of pipelines of PyTorch, measured on one host.
//
//   plan_rankings(validation)
//   -> {{"mlp 16 x 4096, batch 4096, fp32, sgd, 2 GPUs", "h200x2/runs_pytorch", 8 plans, 0.95, ...}}
//
// Step times that are all a tenth too short still rank plans as they are; errors alone do not say that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/study/validate.hpp"

namespace pdl {

/// The plans of one model that one host has measured: schedules, numbers of micro-batches, chunks.
struct PlanRanking {
  std::string model;
  std::string machine;  // the profile, and the folder of the runs
  std::size_t plans = 0;
  std::optional<double> correlation;  // rank_correlation() of predicted and measured step times
  std::string named, best;            // the run of the plan that is predicted to be fastest, and the fastest run
  double named_ms = 0, best_ms = 0;   // as measured
};

/// Of PyTorch's pipelines with a process a GPU; models and hosts in the order of their words, those of which two plans
/// or more were measured.
std::vector<PlanRanking> plan_rankings(const Validation& validation);

/// Spearman's, from -1 to 1; equal values have the mean of their ranks. Nothing where all values of one side are equal.
/// Both have the same length.
std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace pdl
