#include "sim/report/compare.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "sim/io/number_text.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/report/text_table.hpp"
#include "sim/run/metrics.hpp"
#include "sim/spec/settings.hpp"

namespace pdl {
namespace {

/// One number of a run, of both runs.
struct Quantity {
  std::string key;    // in JSON
  std::string title;  // in the table
  std::string unit;
  int digits = 3;
  std::optional<double> a, b;
};

double duration_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

/// Mean length of the spans of a kind; nothing if there are none.
std::optional<double> mean_ms(const RunResult& run, TaskKind kind) {
  double sum = 0;
  std::int64_t count = 0;
  for (const Span& span : run.timeline.spans) {
    if (span.kind != kind) continue;
    sum += duration_ms(span.end_ns - span.start_ns);
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

std::vector<Quantity> whole_run(const RunResult& a, const RunMetrics& ma, const RunResult& b, const RunMetrics& mb) {
  std::vector<Quantity> rows = {
      {"step_time_ms", "step time", "ms", 3, a.step_time.median_ms, b.step_time.median_ms},
      {"throughput_samples_per_s", "throughput", "samples/s", 1, ma.throughput_samples_per_s,
       mb.throughput_samples_per_s},
      {"bubble_fraction", "bubble", "fraction", 4, ma.bubble_fraction, mb.bubble_fraction},
      {"idle_fraction", "idle", "fraction", 4, ma.idle_fraction, mb.idle_fraction},
      {"transfers_count", "transfers", "", 0, static_cast<double>(ma.transfer_count),
       static_cast<double>(mb.transfer_count)},
      {"transfers_bytes", "transfers", "bytes", 0, static_cast<double>(ma.transfer_bytes),
       static_cast<double>(mb.transfer_bytes)},
      {"parameters", "parameters", "", 0, static_cast<double>(ma.parameters), static_cast<double>(mb.parameters)},
  };
  constexpr std::array kKinds = {std::pair{TaskKind::forward, "forward"},
                                 std::pair{TaskKind::backward, "backward"},
                                 std::pair{TaskKind::backward_input, "input gradient"},
                                 std::pair{TaskKind::backward_weight, "weight gradient"},
                                 std::pair{TaskKind::optimizer, "optimizer"},
                                 std::pair{TaskKind::send_forward, "send forward"},
                                 std::pair{TaskKind::send_backward, "send backward"},
                                 std::pair{TaskKind::receive_forward, "receive forward"},
                                 std::pair{TaskKind::receive_backward, "receive backward"},
                                 std::pair{TaskKind::all_reduce, "all-reduce"},
                                 std::pair{TaskKind::broadcast, "broadcast"},
                                 std::pair{TaskKind::reduce, "reduce"},
                                 std::pair{TaskKind::scatter, "scatter"},
                                 std::pair{TaskKind::gather, "gather"},
                                 std::pair{TaskKind::bucket_copy_in, "copy into buckets"},
                                 std::pair{TaskKind::bucket_copy_out, "copy out of buckets"},
                                 std::pair{TaskKind::loss, "loss"},
                                 std::pair{TaskKind::sleep, "sleep"}};
  for (const auto& [kind, name] : kKinds) {
    const auto mean_a = mean_ms(a, kind), mean_b = mean_ms(b, kind);
    if (mean_a || mean_b)
      rows.push_back({std::string("mean ") + name, std::string("mean ") + name, "ms", 3, mean_a, mean_b});
  }
  return rows;
}

std::string difference_text(const Quantity& q) {
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

std::string whole_table(const std::vector<Quantity>& rows, const RunResult& a, const RunResult& b) {
  TextTable table{
      {{"", "", Align::left}, {"", "", Align::left}, {"A", kind_of(a)}, {"B", kind_of(b)}, {"A - B", "of B"}}, {}};
  for (const Quantity& q : rows) {
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

struct SettingDifference {
  std::string name, a, b;
};

std::vector<SettingDifference> settings_that_differ(const RunSpec& a, const RunSpec& b) {
  const auto value = [](const std::vector<SettingValue>& settings, const std::string& name) {
    const SettingValue* found = find_setting(settings, name);
    return found ? found->value : std::string("-");
  };
  const auto of_a = to_settings(a), of_b = to_settings(b);
  std::vector<SettingDifference> differences;
  for (const Setting& row : all_settings()) {
    const std::string left = value(of_a, row.name), right = value(of_b, row.name);
    if (left != right) differences.push_back({row.name, left, right});
  }
  return differences;
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
  out += "\n" + whole_table(whole_run(a, ma, b, mb), a, b) + "\n" + gpu_table(a, ma, b, mb, style.gantt.most_rows);
  if (style.with_gantt)
    out += "\nA, " + kind_of(a) + "\n" + gantt(a, style.gantt) + "\nB, " + kind_of(b) + "\n" + gantt(b, style.gantt);
  return out;
}

nlohmann::ordered_json compare_json(const RunResult& a, const std::string& name_a, const RunResult& b,
                                    const std::string& name_b) {
  using nlohmann::ordered_json;
  ordered_json out = {{"a", name_a}, {"b", name_b}, {"a_measured", a.measured}, {"b_measured", b.measured}};
  out["settings_that_differ"] = ordered_json::array();
  for (const SettingDifference& d : settings_that_differ(a.spec, b.spec)) {
    out["settings_that_differ"].push_back({{"name", d.name}, {"a", d.a}, {"b", d.b}});
  }
  const auto number = [](const std::optional<double>& value) { return value ? ordered_json(*value) : ordered_json(); };
  for (Quantity q : whole_run(a, compute_metrics(a), b, compute_metrics(b))) {
    std::replace(q.key.begin(), q.key.end(), ' ', '_');
    if (q.key.starts_with("mean_")) q.key += "_ms";
    const bool known = q.a && q.b && (*q.b != 0 || *q.a == 0);
    out[q.key] = {{"a", number(q.a)}, {"b", number(q.b)}, {"difference_percent", nullptr}};
    if (known) out[q.key]["difference_percent"] = *q.b == 0 ? 0.0 : 100 * (*q.a - *q.b) / *q.b;
  }
  return out;
}

}  // namespace pdl
