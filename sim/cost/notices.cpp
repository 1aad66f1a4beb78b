#include "sim/cost/notices.hpp"

#include <algorithm>

namespace pdl {

void Notices::extrapolated(const std::string& what, double value, const std::string& text, std::int64_t least,
                           std::int64_t largest) {
  const bool above = value > static_cast<double>(largest);
  const double ratio = above ? value / static_cast<double>(largest) : static_cast<double>(least) / value;
  Farthest& farthest = beyond_[{what, above}];
  if (ratio <= farthest.ratio) return;
  const std::string range = least == largest ? "the only one measured, " + std::to_string(least)
                                             : std::to_string(least) + ".." + std::to_string(largest) + " measured";
  farthest = {ratio, "extrapolated: " + what + " " + text + " beyond " + range};
}

void Notices::say(const std::string& text) {
  if (std::find(said_.begin(), said_.end(), text) == said_.end()) said_.push_back(text);
}

void Notices::say_of_largest(const std::string& what, std::int64_t size, const std::string& text) {
  auto& [largest, said] = largest_[what];
  if (said.empty() || size > largest) largest = size, said = text;
}

std::vector<std::string> Notices::texts() const {
  std::vector<std::string> texts;
  for (const auto& [what, farthest] : beyond_) texts.push_back(farthest.text);
  for (const auto& [what, largest] : largest_) texts.push_back(largest.second);
  texts.insert(texts.end(), said_.begin(), said_.end());
  return texts;
}

}  // namespace pdl
