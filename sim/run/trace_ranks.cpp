#include "sim/run/trace_ranks.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "sim/io/error.hpp"

namespace pdl {
namespace {

/// Ranks of the process group, operation.
using CollectiveKey = std::pair<std::string, std::string>;

std::string described(const CollectiveKey& key, std::size_t count) {
  return std::to_string(count) + " " + key.second + " of NCCL" + (key.first.empty() ? "" : " of ranks " + key.first);
}

std::map<CollectiveKey, std::vector<std::size_t>> collectives_of(const TracedStep& traced) {
  std::map<CollectiveKey, std::vector<std::size_t>> found;
  for (std::size_t place = 0; place < traced.step().activities.size(); ++place) {
    if (traced.step().parts[place] != TracePart::collectives) continue;
    const GpuActivity& activity = traced.activity(place);
    found[{activity.ranks, nccl_operation(activity)}].push_back(place);
  }
  return found;
}

void check_same_bytes(const std::vector<TracedStep>& steps, const TracedCollective& collective, std::size_t n) {
  const TracedStep* first = nullptr;
  std::int64_t bytes = -1;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (!collective.places[s]) continue;
    const std::int64_t own = steps[s].activity(*collective.places[s]).bytes;
    if (first && own >= 0 && bytes >= 0 && own != bytes) {
      throw InputError(steps[s].trace.path,
                       std::to_string(own) + " bytes in collective " + std::to_string(n) + " of the step",
                       std::to_string(bytes) + ", as " + first->trace.path + ": one training");
    }
    if (!first) first = &steps[s];
    if (bytes < 0) bytes = own;
  }
}

std::vector<TracedCollective> joined(const std::vector<TracedStep>& steps) {
  std::map<CollectiveKey, std::vector<std::pair<std::size_t, std::vector<std::size_t>>>> by_key;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (auto& [key, places] : collectives_of(steps[s])) by_key[key].emplace_back(s, std::move(places));
  }
  std::vector<TracedCollective> all;
  for (const auto& [key, members] : by_key) {
    const auto& [first, of_first] = members.front();
    const bool of_all = key.first.empty();
    if (of_all && members.size() < steps.size()) {
      for (std::size_t s = 0; s < steps.size(); ++s) {
        const bool has = std::any_of(members.begin(), members.end(), [&](const auto& m) { return m.first == s; });
        if (!has)
          throw InputError(steps[s].trace.path, described(key, 0),
                           std::to_string(of_first.size()) + ", as " + steps[first].trace.path);
      }
    }
    for (const auto& [s, places] : members) {
      if (places.size() != of_first.size())
        throw InputError(steps[s].trace.path, described(key, places.size()),
                         std::to_string(of_first.size()) + ", as " + steps[first].trace.path);
    }
    if (members.size() < 2) continue;
    for (std::size_t n = 0; n < of_first.size(); ++n) {
      TracedCollective collective{std::vector<std::optional<std::size_t>>(steps.size())};
      for (const auto& [s, places] : members) collective.places[s] = places[n];
      check_same_bytes(steps, collective, n);
      all.push_back(std::move(collective));
    }
  }
  return all;
}

/// No rank has ended a collective before another one began it.
bool clocks_agree(const std::vector<TracedStep>& steps, const TraceRanks& ranks) {
  return std::all_of(ranks.collectives.begin(), ranks.collectives.end(), [&](const TracedCollective& collective) {
    const std::int64_t last_ns = last_start_ns(steps, ranks, collective);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      if (collective.places[s] && steps[s].activity(*collective.places[s]).end_ns + ranks.shift_ns[s] < last_ns)
        return false;
    }
    return true;
  });
}

/// By which the collectives of a file end as those of the first one do, in the median; as it was where none is of both.
std::int64_t shift_by_ends(const std::vector<TracedStep>& steps, const TraceRanks& ranks, std::size_t s) {
  std::vector<std::int64_t> differences;
  for (const TracedCollective& collective : ranks.collectives) {
    if (!collective.places[0] || !collective.places[s]) continue;
    differences.push_back(steps[0].activity(*collective.places[0]).end_ns -
                          steps[s].activity(*collective.places[s]).end_ns);
  }
  if (differences.empty()) return ranks.shift_ns[s];
  const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
  std::nth_element(differences.begin(), middle, differences.end());
  return *middle;
}

}  // namespace

TraceRanks trace_ranks(const std::vector<TracedStep>& steps) {
  TraceRanks ranks;
  for (const TracedStep& traced : steps)
    ranks.shift_ns.push_back(traced.trace.origin_ns - steps.front().trace.origin_ns);
  ranks.collectives = joined(steps);
  if (clocks_agree(steps, ranks)) return ranks;
  ranks.clocks_guessed = true;
  for (std::size_t s = 1; s < steps.size(); ++s) ranks.shift_ns[s] = shift_by_ends(steps, ranks, s);
  return ranks;
}

std::int64_t last_start_ns(const std::vector<TracedStep>& steps, const TraceRanks& ranks,
                           const TracedCollective& collective) {
  std::int64_t last_ns = std::numeric_limits<std::int64_t>::min();
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (collective.places[s])
      last_ns = std::max(last_ns, steps[s].activity(*collective.places[s]).start_ns + ranks.shift_ns[s]);
  }
  return last_ns;
}

}  // namespace pdl
