// Warnings of many runs, each text once.
//
//   WarningList warnings;
//   warnings.add("row 1", predicted.warnings);
//   warnings.add("row 3", predicted.warnings);
//   warnings.text(100)      // "warning (row 1, row 3): rows 16 of layer forward: extrapolated ..."
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace pdl {

class WarningList {
 public:
  void add(const std::string& run, const std::vector<std::string>& warnings);

  /// Lines of at most `width` columns; of more than 6 runs only how many there are. Empty if there are no warnings.
  std::string text(std::size_t width) const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> runs_of_;  // warning, the runs that have it
};

}  // namespace pdl
