#include "sim/report/warnings.hpp"

#include <algorithm>

#include "sim/report/text_table.hpp"

namespace pdl {

void WarningList::add(const std::string& run, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    const auto found =
        std::find_if(runs_of_.begin(), runs_of_.end(), [&](const auto& w) { return w.first == warning; });
    if (found == runs_of_.end()) {
      runs_of_.push_back({warning, {run}});
    } else if (found->second.back() != run) {
      found->second.push_back(run);
    }
  }
}

std::string WarningList::text(std::size_t width) const {
  constexpr std::size_t kMostNamed = 6;
  std::string out;
  for (const auto& [warning, runs] : runs_of_) {
    std::string names;
    for (const std::string& run : runs) names += (names.empty() ? "" : ", ") + run;
    if (runs.size() > kMostNamed) names = std::to_string(runs.size()) + " runs";
    out += wrap("warning (" + names + "): " + warning, width, 2);
  }
  return out;
}

}  // namespace pdl
