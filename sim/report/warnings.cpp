#include "sim/report/warnings.hpp"

#include <algorithm>

#include "sim/io/number_text.hpp"

namespace pdl {
namespace {

/// "1.7", "20", "less than 0.1"
std::string percent_number(double share) {
  if (share < 0.001) return "less than 0.1";
  return fixed(100 * share, share < 0.0995 ? 1 : 0);
}

}  // namespace

void WarningList::add(const std::string& run, const std::vector<std::string>& warnings,
                      const std::map<std::string, double>& shares) {
  for (const std::string& warning : warnings) {
    auto found = std::find_if(listed_.begin(), listed_.end(), [&](const Listed& l) { return l.text == warning; });
    if (found == listed_.end()) {
      listed_.push_back({.text = warning});
      found = listed_.end() - 1;
    }
    if (found->runs.empty() || found->runs.back() != run) found->runs.push_back(run);
    const auto share = shares.find(warning);
    if (share == shares.end()) continue;
    found->least_share = found->has_share ? std::min(found->least_share, share->second) : share->second;
    found->largest_share = std::max(found->largest_share, share->second);
    found->has_share = true;
  }
}

Warning WarningList::block_of(const Listed& listed) const {
  constexpr std::size_t kLongestNames = 60;
  Warning warning{.text = listed.text, .minor = listed.has_share && listed.largest_share < kMinorShare};
  if (listed.has_share) {
    const std::string least = percent_number(listed.least_share), largest = percent_number(listed.largest_share);
    warning.text +=
        "; " + (least == largest ? largest : least + " to " + largest) + " % of the step's work rests on it";
  }
  std::string names;
  for (const std::string& run : listed.runs) names += (names.empty() ? "" : ", ") + run;
  if (names.empty()) return warning;
  const std::string plural = listed.runs.size() == 1 ? "" : "s";
  const bool too_long = listed.runs.size() > 1 && names.size() > kLongestNames;
  warning.where = too_long ? std::to_string(listed.runs.size()) + " " + noun_ + plural : noun_ + plural + " " + names;
  return warning;
}

void WarningList::add_to(Document& document) const {
  std::vector<const Listed*> order;
  for (const Listed& listed : listed_) order.push_back(&listed);
  std::stable_sort(order.begin(), order.end(), [](const Listed* a, const Listed* b) {
    return a->has_share == b->has_share ? a->largest_share > b->largest_share : b->has_share;
  });
  for (const Listed* listed : order) document.add(block_of(*listed));
}

}  // namespace pdl
