#include "sim/report/compare_text.hpp"

#include <algorithm>
#include <optional>

#include "sim/io/number_text.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/report/text_table.hpp"
#include "sim/run/comparison.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/metrics.hpp"

namespace pdl {
namespace {

std::string difference_text(const ComparedQuantity& q) {
  if (!q.a || !q.b) return "-";
  if (*q.a == *q.b) return "0.0 %";
  return *q.b == 0 ? "-" : signed_fixed(100 * (*q.a - *q.b) / *q.b, 1) + " %";
}

std::string shown(const std::optional<double>& value, int digits) {
  return value ? fixed(*value, digits) : "-";
}

std::string kind_of(const RunResult& run) {
  return run.measured ? "measured" : "predicted";
}

/// Where one of the two is no pipeline their idle shares can be compared, their bubbles cannot.
bool both_have_bubbles(const RunResult& a, const RunResult& b) {
  return has_bubble(a.spec) && has_bubble(b.spec);
}

std::string whole_table(const std::vector<ComparedQuantity>& rows, const RunResult& a, const RunResult& b) {
  TextTable table{
      {{"", "", Align::left}, {"", "", Align::left}, {"A", kind_of(a)}, {"B", kind_of(b)}, {"A - B", "of B"}}, {}};
  for (const ComparedQuantity& q : rows) {
    if (q.key == "bubble_fraction" && !both_have_bubbles(a, b)) continue;
    table.rows.push_back({q.title, q.unit, shown(q.a, q.digits), shown(q.b, q.digits), difference_text(q)});
  }
  return to_text(table);
}

std::string gpu_table(const RunResult& a, const RunMetrics& ma, const RunResult& b, const RunMetrics& mb,
                      std::size_t most_rows) {
  TextTable table{{{"GPU", ""},
                   {"busy A", "ms"},
                   {"B", "ms"},
                   {"comm. A", "ms"},
                   {"B", "ms"},
                   {"idle A", "ms"},
                   {"B", "ms"},
                   {both_have_bubbles(a, b) ? "bubble A" : "idle share A", "%"},
                   {"B", "%"},
                   {"memory A", "GiB"},
                   {"B", "GiB"}},
                  {}};
  const std::size_t count = std::max(ma.gpus.size(), mb.gpus.size());
  const std::vector<std::size_t> rows = shown_rows(count, most_rows);
  const auto cell = [](const RunMetrics& m, std::size_t g, std::int64_t GpuMetrics::* field) {
    return g < m.gpus.size() ? milliseconds(m.gpus[g].*field) : std::string("-");
  };
  const auto lost = [bubble = both_have_bubbles(a, b)](const RunMetrics& m, std::size_t g) {
    return g < m.gpus.size() ? fixed(100 * lost_fraction(m.gpus[g], bubble), 1) : std::string("-");
  };
  const auto memory = [](const RunResult& run, std::size_t g) {
    return g < run.peak_memory_bytes.size() ? gib(run.peak_memory_bytes[g]) : std::string("-");
  };
  for (const std::size_t g : rows) {
    table.rows.push_back({std::to_string(g), cell(ma, g, &GpuMetrics::busy_ns), cell(mb, g, &GpuMetrics::busy_ns),
                          cell(ma, g, &GpuMetrics::comm_ns), cell(mb, g, &GpuMetrics::comm_ns),
                          cell(ma, g, &GpuMetrics::idle_ns), cell(mb, g, &GpuMetrics::idle_ns), lost(ma, g),
                          lost(mb, g), memory(a, g), memory(b, g)});
  }
  return to_text(table) +
         (rows.size() == count ? "" : "(" + std::to_string(count - rows.size()) + " GPUs are not shown)\n") +
         kTimesLegend;
}

}  // namespace

std::string compare_text(const RunResult& a, const std::string& name_a, const RunResult& b, const std::string& name_b,
                         const ViewStyle& style) {
  const RunMetrics ma = compute_metrics(a), mb = compute_metrics(b);
  const std::size_t width = style.gantt.width;
  std::string out;
  for (const auto* side : {&a, &b}) {
    const bool first = side == &a;
    out += std::string(first ? "A: " : "B: ") + printable(first ? name_a : name_b) + "\n" +
           wrap("   " + describe(side->spec), width, 3) + wrap("   " + describe_source(*side), width, 3);
  }
  for (const SettingDifference& d : settings_that_differ(a.spec, b.spec)) {
    out += printable("differs: " + d.name + " is " + d.a + " in A, " + d.b + " in B") + "\n";
  }
  out += "\n" + whole_table(compared_quantities(a, ma, b, mb), a, b) + "\n" +
         gpu_table(a, ma, b, mb, style.gantt.most_rows);
  if (style.with_gantt)
    out += "\nA, " + kind_of(a) + "\n" + gantt(a, style.gantt) + "\nB, " + kind_of(b) + "\n" + gantt(b, style.gantt);
  return out;
}

}  // namespace pdl
