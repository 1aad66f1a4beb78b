#include "sim/cost/memory_contention.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/layer_time.hpp"
#include "sim/plan/gradient_buckets.hpp"

namespace pdl {
namespace {

const MeasuredCurve* copies(const CostProfile& profile) {
  for (const MeasuredCurve& measured : profile.of(Probe::bucket)) {
    if (measured.key.operation == "copy_out") return &measured;
  }
  return nullptr;
}

/// The copies beside that all-reduce.
const MeasuredCurve* copies_beside(const CostProfile& profile, MeasuredKey communication) {
  communication.name = "compute";
  for (const MeasuredCurve& measured : profile.of(Probe::overlap)) {
    if (measured.key == communication) return &measured;
  }
  return nullptr;
}

/// That all-reduce alone.
const MeasuredCurve* alone(const CostProfile& profile, const MeasuredKey& communication) {
  for (const MeasuredCurve& measured : profile.of(Probe::collective)) {
    const MeasuredKey& key = measured.key;
    if (key.operation == "all_reduce" && key.transport == communication.transport && key.ranks == communication.ranks &&
        key.hosts == 1) {
      return &measured;
    }
  }
  return nullptr;
}

}  // namespace

MemoryContention::MemoryContention(const CostProfile& profile) {
  const MeasuredCurve* copied = copies(profile);
  if (!copied) return;
  const CurvePoint& largest_copy = copied->curve.points.back();
  copy_bytes_per_ns_ = 2 * static_cast<double>(kBytesPerNumber * largest_copy.size) / largest_copy.time_ns;
  double sum = 0;
  int groups = 0;
  for (const MeasuredCurve& measured : profile.of(Probe::overlap)) {
    const MeasuredKey& key = measured.key;
    if (key.name != "communication" || key.operation != kAllReduceBesideCopies) continue;
    const MeasuredCurve* beside = copies_beside(profile, key);
    const MeasuredCurve* by_itself = alone(profile, key);
    if (!beside || !by_itself) continue;
    const CurvePoint& message = measured.curve.points.back();
    const auto gpus = static_cast<double>(key.ranks);
    const double wait_ns = gpus / (gpus + 1) * read_curve(beside->curve, message.size).time_ns;
    const double alone_ns = read_curve(by_itself->curve, message.size).time_ns;
    sum += std::max(0.0, (message.time_ns - wait_ns) / alone_ns - 1);
    ++groups;
  }
  if (groups > 0) of_copies_ = sum / groups;
}

double MemoryContention::of_layer(const MeasuredKey& layer, double device_ns, std::int64_t gpus) const {
  if (of_copies_ == 0 || device_ns <= 0) return 0;
  const auto weights = static_cast<double>(matrix_parameters(layer.layer));
  const double moved = weights * ((layer.accumulate ? 12.0 : 0.0) + (layer.dtype && is_amp(*layer.dtype) ? 6.0 : 0.0));
  const double moving = std::min(1.0, moved / copy_bytes_per_ns_ / device_ns);
  const double rest_ns = device_ns * (1 - moving);
  const double share = rest_ns > 0 ? std::min(1.0, layer_bytes(layer) / copy_bytes_per_ns_ / rest_ns) : 1;
  return of_copies_ * (share + (1 - share) * (1 - std::pow(1 - moving, static_cast<double>(gpus))));
}

}  // namespace pdl
