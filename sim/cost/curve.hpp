// A measured time as a function of one size (rows, elements, parameters, bytes), and how it is read between and
// beyond the measured points.
//
//   time
//    |            .--o   <- above: the slope of the last points goes on, linear in size
//    |        .--o
//    |  o----o            between: straight lines in log(size), log(time)
//    |..                  below: the smallest time (a latency), never less; size 0 takes no time
//    +--------------------- size
//
//   Curve curve{.points = {{.size = 1024, .time_ns = 10e3}, {.size = 1 << 20, .time_ns = 40e3}}};
//   read_curve(curve, 4096).time_ns
//
// No single straight line fits communication from bytes to gigabytes; where one does, `line` says how well.
// Units: nanoseconds as double, with picoseconds as the last digit that counts. Not here: what the size means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pdl {

/// One kernel of an operation.
struct Kernel {
  std::string name;
  double time_ns = 0;                          // of one launch
  std::int64_t blocks = 0;                     // thread blocks of the launch; 0: not known
  std::int64_t blocks_per_multiprocessor = 0;  // resident at once; 0: not known
  std::int64_t count = 1;                      // launches one after another
  bool operator==(const Kernel&) const = default;
};

/// Times of one call by the host in many measurements: they differ by the core that it ran on and what else there was.
struct HostSpread {
  double median_ns = 0;
  double p75_ns = 0;
  double p90_ns = 0;
  double p95_ns = 0;

  HostSpread() = default;
  HostSpread(double always_ns) : HostSpread(always_ns, always_ns, always_ns, always_ns) {}
  HostSpread(double median, double p75, double p90, double p95)
      : median_ns(median), p75_ns(p75), p90_ns(p90), p95_ns(p95) {}
  bool operator==(const HostSpread&) const = default;

  /// The quantile, straight between the known ones; below the first and above the last it is these.
  double at(double quantile) const;
};

inline constexpr double kMedianHost = 0.5;
inline constexpr double kSlowHost = 0.95;  // the last quantile that is known

/// Where n processes do the same and all wait for the slowest, its time in the median: quantile 0.5^(1/n).
double quantile_of_slowest(std::int64_t processes);

struct CurvePoint {
  std::int64_t size = 0;
  double time_ns = 0;  // what the curve says here
  double p25_ns = 0;   // quartiles of the measurements
  double p75_ns = 0;
  std::int64_t count = 0;              // measurements behind it, warm-up not counted
  std::int64_t warmup = 0;             // measurements dropped as warm-up
  std::optional<double> median_ns;     // of the measurements, where the curve differs from it
  std::optional<HostSpread> issue_ns;  // by the host, of the operation
  std::vector<Kernel> kernels;         // in the order of execution; empty: not recorded
};

/// A measured point that the curve leaves out, and why.
struct LeftOutPoint {
  std::int64_t size = 0;
  double time_ns = 0;
  std::string reason;
};

/// time = latency + size / size_per_s, fitted to the points of a curve by relative residuals.
struct LineFit {
  double latency_ns = 0;
  double size_per_s = 0;       // bytes, parameters, ... per second
  double median_residual = 0;  // |line / point - 1|
  double max_residual = 0;
};

struct Curve {
  std::vector<CurvePoint> points;  // ascending size; never empty in a profile
  std::vector<LeftOutPoint> left_out;
  std::optional<LineFit> line;  // of curves with at least 3 points

  std::int64_t least() const { return points.front().size; }
  std::int64_t largest() const { return points.back().size; }
};

enum class CurveRange : std::uint8_t { measured, below, above };

struct CurveReading {
  double time_ns = 0;
  CurveRange range = CurveRange::measured;
  bool extrapolated() const { return range != CurveRange::measured; }
};

/// size >= 0. Positive for size > 0, not decreasing in size if the points are not.
CurveReading read_curve(const Curve& curve, std::int64_t size);

/// Host time of issue at that size: as the device time between points, the nearest point's beyond. 0 if not measured.
double read_issue_ns(const Curve& curve, std::int64_t size, double quantile = kMedianHost);

/// The point whose size is nearest in ratio.
const CurvePoint& nearest_point(const Curve& curve, std::int64_t size);

/// y at x on the straight line through two points in log(x), log(y). All arguments positive, x0 < x1.
double interpolate_log_log(double x, double x0, double y0, double x1, double y1);

/// Rounds to picoseconds, so that the same time written in ms, us or ns is the same number.
double to_picoseconds(double ns);

}  // namespace pdl
