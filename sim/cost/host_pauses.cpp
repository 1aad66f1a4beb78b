#include "sim/cost/host_pauses.hpp"

#include <algorithm>
#include <cmath>

namespace pdl {
namespace {

/// Empty for tasks that no pause makes slower.
std::string operation_of(TaskKind kind) {
  if (kind == TaskKind::forward) return "forward";
  if (kind == TaskKind::backward) return "backward";
  return kind == TaskKind::optimizer ? "optimizer" : "";
}

/// How far the data type of a measurement is from the wanted one.
int unlike(const MeasuredKey& measured, Dtype wanted) {
  if (measured.dtype == wanted || (measured.dtype == Dtype::fp32 && wanted == Dtype::tf32)) return 0;
  return (measured.dtype && is_amp(*measured.dtype)) == is_amp(wanted) ? 1 : 2;
}

}  // namespace

HostPauses::HostPauses(const CostProfile& profile, Dtype dtype, Notices& notices)
    : waits_in_optimizer_(dtype == Dtype::amp_fp16) {
  const MeasuredKey* nearest = nullptr;
  for (const MeasuredCurve& measured : profile.of(Probe::pause)) {
    if (measured.key.implementation != "autograd") continue;
    if (!nearest || unlike(measured.key, dtype) < unlike(*nearest, dtype)) nearest = &measured.key;
  }
  if (!nearest) return;
  if (unlike(*nearest, dtype) > 0) {
    notices.say_substitute("pauses", profile.name, "host after pauses autograd " + to_string(dtype),
                           "those of " + dtype_word(*nearest));
  }
  for (const MeasuredCurve& measured : profile.of(Probe::pause)) {
    const bool same = measured.key.implementation == nearest->implementation && measured.key.dtype == nearest->dtype;
    if (same) curves_.push_back(measured);
  }
  for (const char* operation : {"forward", "backward", "optimizer"}) {
    if (find("again", operation) && find("later", operation)) continue;
    notices.say("not in profile " + profile.name + ": host after pauses autograd " + dtype_word(*nearest) + ", " +
                operation + " again and later; taken as no time");
  }
}

void HostPauses::prepares_exchange(double ns) {
  prepare_ns_ = std::llround(ns);
}

const Curve* HostPauses::find(const std::string& name, const std::string& operation) const {
  for (const MeasuredCurve& measured : curves_) {
    if (measured.key.name == name && measured.key.operation == operation) return &measured.curve;
  }
  return nullptr;
}

std::int64_t HostPauses::delay_ns(TaskKind kind, std::int64_t since_ns, std::int64_t paused_ns, bool slept) const {
  const std::string operation = operation_of(kind);
  const Curve* again = find("again", operation);
  const Curve* first = nullptr;
  if (paused_ns > 0 && paused_ns >= since_ns / 2) first = find(slept ? "after_sleep" : "after_wait", operation);
  if (!first) first = find("later", operation);
  if (!again || !first) return 0;
  const double first_ns = read_curve(*first, std::clamp(since_ns, first->least(), first->largest())).time_ns;
  return std::llround(std::max(0.0, first_ns - again->points.front().time_ns));
}

}  // namespace pdl
