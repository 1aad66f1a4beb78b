#include "calibrate/fit/line_fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/io/statistics.hpp"

namespace pdl {
namespace {

constexpr int kIterations = 200;
constexpr double kSmallestResidual = 1e-6;  // weights stay finite where the line goes through a point

/// Minimises sum of |rows * x - 1| for the columns of `rows`.
Eigen::VectorXd least_absolute(const Eigen::MatrixXd& rows) {
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(rows.rows());
  Eigen::VectorXd weights = ones;
  Eigen::VectorXd x = Eigen::VectorXd::Zero(rows.cols());
  for (int i = 0; i < kIterations; ++i) {
    const Eigen::VectorXd next = (weights.asDiagonal() * rows).colPivHouseholderQr().solve(weights);
    const bool settled = (next - x).norm() <= 1e-12 * next.norm();
    x = next;
    if (settled) break;
    // Least squares weighs by the square of the weight: 1 / sqrt(|residual|) makes it |residual|.
    weights = (rows * x - ones).cwiseAbs().cwiseMax(kSmallestResidual).cwiseSqrt().cwiseInverse();
  }
  return x;
}

double rounded(double residual) {
  return std::round(residual * 1e6) / 1e6;
}

}  // namespace

std::optional<LineFit> fit_line(std::span<const CurvePoint> points) {
  if (points.size() < 3) return std::nullopt;
  // Columns of similar size: latency in units of the median time, sizes in units of the largest.
  std::vector<double> times;
  for (const CurvePoint& point : points) times.push_back(point.time_ns);
  const double time_scale = median(times);
  const double size_scale = static_cast<double>(points.back().size);
  const auto count = static_cast<Eigen::Index>(points.size());
  Eigen::MatrixXd rows(count, 2);
  for (Eigen::Index i = 0; i < count; ++i) {
    const CurvePoint& point = points[static_cast<std::size_t>(i)];
    rows(i, 0) = time_scale / point.time_ns;
    rows(i, 1) = static_cast<double>(point.size) / size_scale * time_scale / point.time_ns;
  }
  Eigen::VectorXd x = least_absolute(rows);
  if (x(0) < 0) {
    x(0) = 0;
    x(1) = least_absolute(rows.col(1))(0);
  }
  if (!(x(1) > 1e-12)) return std::nullopt;

  LineFit line;
  line.latency_ns = to_picoseconds(x(0) * time_scale);
  line.size_per_s = 1e9 * size_scale / (x(1) * time_scale);
  std::vector<double> residuals;
  for (const CurvePoint& point : points) {
    const double predicted_ns = line.latency_ns + 1e9 * static_cast<double>(point.size) / line.size_per_s;
    residuals.push_back(std::abs(predicted_ns / point.time_ns - 1));
  }
  line.median_residual = rounded(median(residuals));
  line.max_residual = rounded(*std::max_element(residuals.begin(), residuals.end()));
  return line;
}

}  // namespace pdl
