#include "sim/cost/transfer_time.hpp"

#include <algorithm>
#include <vector>

#include "sim/cost/curve.hpp"
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {

double TransferTimes::at(std::int32_t from, std::int32_t to, std::int64_t bytes) {
  std::vector<const MeasuredCurve*> pairs;
  bool both_ways = true;  // nothing else was measured
  for (const MeasuredCurve& measured : profile_.of(Probe::transfer)) {
    if (measured.key.transport != transport_ || (measured.key.bidirectional && !both_ways)) continue;
    if (!measured.key.bidirectional && both_ways) pairs.clear();
    both_ways = measured.key.bidirectional;
    pairs.push_back(&measured);
  }
  if (pairs.empty()) {
    std::set<std::string> known;
    for (const MeasuredCurve& measured : profile_.of(Probe::transfer)) known.insert(measured.key.transport);
    throw InputError("--transport", transport_,
                     known.empty() ? "a profile with transfers: profile " + profile_.name + " has none"
                                   : "what profile " + profile_.name +
                                         " has: " + list_words(std::vector<std::string>(known.begin(), known.end())));
  }
  if (both_ways) {
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
  for (const MeasuredCurve* pair : pairs) {
    if (pair->key.from == from && pair->key.to == to) return reading(*pair);
  }
  notices_.say_substitute(
      "transfers", profile_.name, "transfers " + transport_ + " " + std::to_string(from) + " -> " + std::to_string(to),
      "the median of its " + std::to_string(pairs.size()) + (pairs.size() == 1 ? " pair" : " pairs"));
  std::vector<double> times_ns;
  for (const MeasuredCurve* pair : pairs) times_ns.push_back(reading(*pair));
  std::sort(times_ns.begin(), times_ns.end());
  return (times_ns[(times_ns.size() - 1) / 2] + times_ns[times_ns.size() / 2]) / 2;
}

}  // namespace pdl
