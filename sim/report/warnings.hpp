// Warnings of one run or of many: each text once, with the runs that have it and with how much rests on it.
//
//   WarningList warnings("row");
//   warnings.add("1", predicted.warnings, predicted.warning_shares);
//   warnings.add("3", other.warnings, other.warning_shares);
//   warnings.add_to(document);
//
//   warning (rows 1, 3): extrapolated: dim 16384 beyond 1024..8192 measured; 0.9 to 1.7 % of the step's work rests on
//   it
//
// Those that say nothing of a share come first, then those on which most rests. What less than kMinorShare of every run
// rests on is minor: a terminal leaves it out (sim/report/document.hpp).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/report/document.hpp"

namespace pdl {

inline constexpr double kMinorShare = 0.005;

class WarningList {
 public:
  /// `noun`: what the runs are called, "row"; its plural has an s.
  explicit WarningList(std::string noun = "run") : noun_(std::move(noun)) {}

  /// `run`: its name; empty where there is one run only. `shares`: RunResult::warning_shares.
  void add(const std::string& run, const std::vector<std::string>& warnings,
           const std::map<std::string, double>& shares = {});

  void add_to(Document& document) const;

 private:
  struct Listed {
    std::string text{};
    std::vector<std::string> runs{};
    double least_share = 0, largest_share = 0;
    bool has_share = false;
  };
  Warning block_of(const Listed& listed) const;

  std::string noun_;
  std::vector<Listed> listed_;
};

}  // namespace pdl
