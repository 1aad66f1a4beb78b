#include "sim/cost/attention_time.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace pdl {
namespace {

double heads(const Layer& layer) {
  return static_cast<double>(layer.sizes[0]);
}

double head_size(const Layer& layer) {
  return static_cast<double>(layer.sizes[2]);
}

double tokens(const Layer& layer) {
  return static_cast<double>(layer.sizes[3]);
}

/// Fewer heads of keys than of queries.
bool is_grouped(const Layer& layer) {
  return layer.sizes[1] < layer.sizes[0];
}

double away(double a, double b) {
  return std::abs(std::log2(a / b));
}

/// By heads x sequences, of one number of tokens. Of equal ones the mean.
using ByHeads = std::map<double, double>;

ByHeads by_heads(const std::vector<const MeasuredCurve*>& shapes, double of_tokens) {
  std::map<double, std::vector<double>> all;
  for (const MeasuredCurve* shape : shapes) {
    if (tokens(shape->key.layer) != of_tokens) continue;
    for (const CurvePoint& point : shape->curve.points)
      all[heads(shape->key.layer) * static_cast<double>(point.size)].push_back(point.time_ns);
  }
  ByHeads means;
  for (const auto& [count, times] : all) {
    double sum = 0;
    for (const double ns : times) sum += ns;
    means[count] = sum / static_cast<double>(times.size());
  }
  return means;
}

struct Read {
  double ns = 0;
  double octaves_beyond = 0;
};

Read read(const ByHeads& curve, double count) {
  const auto above = curve.lower_bound(count);
  if (above == curve.end()) {
    const auto& [most, ns] = *curve.rbegin();
    return {ns * count / most, std::log2(count / most)};
  }
  if (above == curve.begin()) {
    const auto next = std::next(above);
    const double slope =
        next == curve.end()
            ? 0
            : std::clamp(std::log(next->second / above->second) / std::log(next->first / above->first), 0.0, 1.0);
    return {above->second * std::pow(count / above->first, slope), std::log2(above->first / count)};
  }
  const auto below = std::prev(above);
  return {interpolate_log_log(count, below->first, below->second, above->first, above->second)};
}

Read over_tokens(const std::vector<const MeasuredCurve*>& shapes, double of_tokens, double count) {
  double below = 0, above = INFINITY, least = INFINITY, most = 0;
  for (const MeasuredCurve* shape : shapes) {
    const double measured = tokens(shape->key.layer);
    if (measured <= of_tokens) below = std::max(below, measured);
    if (measured >= of_tokens) above = std::min(above, measured);
    least = std::min(least, measured);
    most = std::max(most, measured);
  }
  if (below == above) return read(by_heads(shapes, of_tokens), count);
  if (below == 0) {
    const Read fewest = read(by_heads(shapes, least), count);
    return {fewest.ns * of_tokens / least, fewest.octaves_beyond + std::log2(least / of_tokens)};
  }
  if (std::isinf(above)) {
    const Read longest = read(by_heads(shapes, most), count);
    const double longer = of_tokens / most;
    return {longest.ns * longer * longer, longest.octaves_beyond + std::log2(longer)};
  }
  const Read shorter = read(by_heads(shapes, below), count), longer = read(by_heads(shapes, above), count);
  return {interpolate_log_log(of_tokens, below, shorter.ns, above, longer.ns),
          std::max(shorter.octaves_beyond, longer.octaves_beyond)};
}

}  // namespace

AttentionTime attention_time(const std::vector<const MeasuredCurve*>& all, const MeasuredKey& layer) {
  const Layer& wanted = layer.layer;
  std::vector<const MeasuredCurve*> shapes = all;
  std::erase_if(shapes, [&](const MeasuredCurve* shape) { return is_grouped(shape->key.layer) != is_grouped(wanted); });
  if (shapes.empty()) shapes = all;
  double nearest_head = head_size(shapes.front()->key.layer);
  for (const MeasuredCurve* shape : shapes) {
    const double measured = head_size(shape->key.layer);
    if (away(measured, head_size(wanted)) < away(nearest_head, head_size(wanted))) nearest_head = measured;
  }
  std::vector<const MeasuredCurve*> of_head;
  AttentionTime time;
  double least = INFINITY;
  const double count = heads(wanted) * static_cast<double>(layer.size);
  for (const MeasuredCurve* shape : shapes) {
    const Layer& measured = shape->key.layer;
    if (head_size(measured) != nearest_head) continue;
    of_head.push_back(shape);
    for (const CurvePoint& point : shape->curve.points) {
      const double distance =
          away(tokens(measured), tokens(wanted)) + away(heads(measured) * static_cast<double>(point.size), count);
      if (distance >= least) continue;
      least = distance;
      time.nearest = &shape->curve;
      time.nearest_size = point.size;
    }
  }
  const Read found = over_tokens(of_head, tokens(wanted), count);
  time.ns = found.ns * head_size(wanted) / nearest_head;
  time.octaves_beyond = std::max(found.octaves_beyond, away(head_size(wanted), nearest_head));
  return time;
}

}  // namespace pdl
