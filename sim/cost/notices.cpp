#include "sim/cost/notices.hpp"

#include <algorithm>

namespace pdl {

void Notices::begin_work(std::size_t work) {
  work_ = work;
  in_work_ = true;
}

void Notices::end_works() {
  in_work_ = false;
}

Notices::Said& Notices::entry(const Key& key, double device_ns) {
  const auto [place, is_new] = index_.try_emplace(key, said_.size());
  if (is_new) said_.emplace_back();
  Said& said = said_[place->second];
  if (!in_work_) return said;
  std::vector<WorkOfNotice>& works = said.notice.works;
  if (works.empty() || works.back().work != work_) works.push_back({work_, 0});
  works.back().device_ns += device_ns;
  return said;
}

void Notices::say_again(const Notices& kept, double device_ns) {
  std::vector<const Key*> keys(kept.said_.size());
  for (const auto& [key, i] : kept.index_) keys[i] = &key;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Said& from = kept.said_[i];
    Said& said = entry(*keys[i], device_ns);
    said.like.insert(from.like.begin(), from.like.end());
    const bool is_farther = std::get<Group>(*keys[i]) != Group::other && from.size > said.size;
    if (!said.notice.text.empty() && !is_farther) continue;
    said.size = from.size;
    said.notice.text = from.notice.text;
    said.notice.host_ns = from.notice.host_ns;
  }
}

void Notices::extrapolated(const std::string& what, double value, const std::string& text, std::int64_t least,
                           std::int64_t largest) {
  const bool above = value > static_cast<double>(largest);
  const double ratio = above ? value / static_cast<double>(largest) : static_cast<double>(least) / value;
  Said& farthest = entry({Group::beyond, what, above});
  if (ratio <= farthest.size) return;
  const std::string range = least == largest ? "the only one measured, " + std::to_string(least)
                                             : std::to_string(least) + ".." + std::to_string(largest) + " measured";
  farthest.size = ratio;
  farthest.notice.text = "extrapolated: " + what + " " + text + " beyond " + range;
}

void Notices::say(const std::string& text) {
  entry({Group::other, text, false}).notice.text = text;
}

Notices::Said& Notices::substitute(const std::string& kind, const std::string& profile, const std::string& wanted,
                                   const std::string& used) {
  Said& said = entry({Group::other, "substitute " + kind, false});
  if (said.notice.text.empty()) said.notice.text = "not in profile " + profile + ": " + wanted + "; " + used;
  said.like.insert(wanted);
  return said;
}

void Notices::say_substitute(const std::string& kind, const std::string& profile, const std::string& wanted,
                             const std::string& used) {
  substitute(kind, profile, wanted, used + " used instead");
}

void Notices::say_host_substitute(const std::string& profile, const std::string& wanted, const std::string& used,
                                  double host_ns) {
  Said& said = substitute(wanted, profile, wanted, used + " used instead");
  said.notice.host_ns = host_ns;
}

void Notices::say_of_largest(const std::string& what, std::int64_t size, const std::string& text) {
  Said& largest = entry({Group::largest, what, false});
  if (!largest.notice.text.empty() && static_cast<double>(size) <= largest.size) return;
  largest.size = static_cast<double>(size);
  largest.notice.text = text;
}

std::vector<Notice> Notices::list() const {
  std::vector<std::size_t> order;
  for (const auto& [key, i] : index_) {
    if (std::get<Group>(key) != Group::other) order.push_back(i);
  }
  const auto named = order.size();
  for (const auto& [key, i] : index_) {
    if (std::get<Group>(key) == Group::other) order.push_back(i);
  }
  std::sort(order.begin() + static_cast<std::ptrdiff_t>(named), order.end());
  std::vector<Notice> notices;
  for (const std::size_t i : order) {
    Notice notice = said_[i].notice;
    if (said_[i].like.size() > 1) {
      const std::string more = " and " + std::to_string(said_[i].like.size() - 1) + " more of this kind";
      notice.text.insert(notice.text.find("; "), more);
    }
    notices.push_back(std::move(notice));
  }
  return notices;
}

std::vector<std::string> Notices::texts() const {
  std::vector<std::string> texts;
  for (const Notice& notice : list()) texts.push_back(notice.text);
  return texts;
}

}  // namespace pdl
