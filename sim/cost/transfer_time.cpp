#include "sim/cost/transfer_time.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/cost/curve.hpp"
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {

TransferTimes::TransferTimes(const CostProfile& profile, std::string transport, Notices& notices)
    : profile_(profile), transport_(std::move(transport)), notices_(notices) {
  for (const MeasuredCurve& measured : profile_.of(Probe::transfer)) {
    if (measured.key.transport != transport_ || (measured.key.bidirectional && !both_ways_)) continue;
    if (!measured.key.bidirectional && both_ways_) pairs_.clear();
    both_ways_ = measured.key.bidirectional;
    pairs_.push_back(&measured);
  }
}

double TransferTimes::at(std::int32_t from, std::int32_t to, std::int64_t bytes) {
  if (pairs_.empty()) {
    std::set<std::string> known;
    for (const MeasuredCurve& measured : profile_.of(Probe::transfer)) known.insert(measured.key.transport);
    throw InputError("--transport", transport_,
                     known.empty() ? "a profile with transfers: profile " + profile_.name + " has none"
                                   : "what profile " + profile_.name +
                                         " has: " + list_words(std::vector<std::string>(known.begin(), known.end())));
  }
  if (both_ways_) {
    notices_.say_substitute("one way", profile_.name, "transfers " + transport_ + " one way",
                            "transfers both ways at once");
  }
  // Not a notice for every pair of workers.
  const auto reading = [&](const MeasuredCurve& pair) {
    const CurveReading read_at = read_curve(pair.curve, bytes);
    if (read_at.extrapolated()) {
      notices_.extrapolated("bytes of transfer " + transport_, bytes, pair.curve.least(), pair.curve.largest());
    }
    return read_at.time_ns;
  };
  for (const MeasuredCurve* pair : pairs_) {
    if (pair->key.from == from && pair->key.to == to) return reading(*pair);
  }
  notices_.say_substitute(
      "transfers", profile_.name, "transfers " + transport_ + " " + std::to_string(from) + " -> " + std::to_string(to),
      "the median of its " + std::to_string(pairs_.size()) + (pairs_.size() == 1 ? " pair" : " pairs"));
  std::vector<double> times_ns;
  for (const MeasuredCurve* pair : pairs_) times_ns.push_back(reading(*pair));
  std::sort(times_ns.begin(), times_ns.end());
  return (times_ns[(times_ns.size() - 1) / 2] + times_ns[times_ns.size() / 2]) / 2;
}

}  // namespace pdl
