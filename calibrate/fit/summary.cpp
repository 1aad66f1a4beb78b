#include "calibrate/fit/summary.hpp"

#include <algorithm>
#include <map>

#include "sim/io/statistics.hpp"

namespace pdl {
namespace {

struct Row {
  FitSummaryRow summary;
  std::vector<double> spreads;
  std::vector<double> residuals;
};

/// What shares a row: the probe and how it was done, whatever the shape or the pair of workers.
std::string row_name(const MeasuredKey& key) {
  std::string name(to_string(key.probe));
  for (const std::string& word : {key.implementation, key.optimizer, key.transport, dtype_word(key), key.name}) {
    if (!word.empty()) name += " " + word;
  }
  if (key.probe == Probe::collective || key.probe == Probe::pause) name += " " + key.operation;
  if (key.bidirectional) name += " both ways";
  return name;
}

void add_curve(const Curve& curve, Row& row) {
  FitSummaryRow& summary = row.summary;
  ++summary.curves;
  summary.points += curve.points.size();
  summary.left_out += curve.left_out.size();
  summary.least = summary.least == 0 ? curve.least() : std::min(summary.least, curve.least());
  summary.largest = std::max(summary.largest, curve.largest());
  for (const CurvePoint& point : curve.points) {
    summary.measurements += point.count;
    row.spreads.push_back((point.p75_ns - point.p25_ns) / point.median_ns.value_or(point.time_ns));
  }
  if (curve.line) row.residuals.push_back(curve.line->max_residual);
}

}  // namespace

std::vector<FitSummaryRow> summarize_profile(const CostProfile& profile) {
  std::map<std::pair<Probe, std::string>, Row> rows;
  for (const MeasuredCurve& curve : profile.curves) {
    add_curve(curve.curve, rows[{curve.key.probe, row_name(curve.key)}]);
  }
  for (const HostTime& host : profile.host) {
    Row& row = rows[{Probe::host, row_name(host.key)}];
    ++row.summary.curves;
    ++row.summary.points;
    row.summary.measurements += host.count;
    row.spreads.push_back((host.time_ns.p75_ns - host.p25_ns) / host.time_ns.median_ns);
  }
  for (const MemoryConstant& memory : profile.memory) {
    Row& row = rows[{Probe::memory, row_name(memory.key)}];
    ++row.summary.curves;
    ++row.summary.points;
    row.summary.measurements += memory.count;
  }
  std::vector<FitSummaryRow> summaries;
  for (auto& [name, row] : rows) {
    row.summary.what = name.second;
    if (!row.spreads.empty()) row.summary.spread = median(row.spreads);
    if (!row.residuals.empty()) row.summary.line_residual = median(row.residuals);
    summaries.push_back(row.summary);
  }
  return summaries;
}

}  // namespace pdl
