#include "sim/run/comparison.hpp"

#include <algorithm>
#include <array>

#include "sim/run/metrics.hpp"
#include "sim/run/run_name.hpp"
#include "sim/spec/settings.hpp"

namespace pdl {
namespace {

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

std::optional<double> half_width_percent(const RunResult& run) {
  return half_width_ms(run) ? std::optional(run.error_bar->half_width_percent) : std::nullopt;
}

/// As it runs, whether a file of the run has it or it is the usual value. "-": it has none, or none that means
/// something.
std::string value_in(const SettingRow& row, const RunSpec& spec) {
  const std::optional<std::string> value = row.write(spec);
  if (!value) return "-";
  const bool left_out = !row.written_if_usual && *value == row.usual;
  return left_out && row.no_meaning && row.no_meaning({row.name, *value, row.name}, spec) ? "-" : *value;
}

constexpr std::array kComparedKinds = {std::pair{TaskKind::forward, "forward"},
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
                                       std::pair{TaskKind::scale_gradients, "scale gradients"},
                                       std::pair{TaskKind::sleep, "sleep"}};

}  // namespace

std::optional<MeasuredInPrediction> measured_in_prediction(const RunResult& a, const RunResult& b) {
  const RunResult& predicted = a.measured ? b : a;
  const RunResult& measured = a.measured ? a : b;
  if (predicted.measured || !measured.measured || !same_run(predicted.spec, measured.spec)) return std::nullopt;
  const auto inside = lies_inside(predicted, measured);
  if (!inside) return std::nullopt;
  return MeasuredInPrediction{measured.step_time.median_ms, predicted.step_time.median_ms, *half_width_ms(predicted),
                              *inside};
}

std::vector<ComparedQuantity> compared_quantities(const RunResult& a, const RunMetrics& ma, const RunResult& b,
                                                  const RunMetrics& mb) {
  std::vector<ComparedQuantity> rows = {
      {"step_time_ms", "step time", "ms", 3, a.step_time.median_ms, b.step_time.median_ms},
      {"step_time_half_width_90_percent", "half width", "%", 2, half_width_percent(a), half_width_percent(b)},
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
  if (!rows[1].a && !rows[1].b) rows.erase(rows.begin() + 1);
  for (const auto& [kind, name] : kComparedKinds) {
    const auto mean_a = mean_ms(a, kind), mean_b = mean_ms(b, kind);
    if (mean_a || mean_b)
      rows.push_back({std::string("mean ") + name, std::string("mean ") + name, "ms", 3, mean_a, mean_b});
  }
  return rows;
}

std::vector<SettingDifference> settings_that_differ(const RunSpec& a, const RunSpec& b) {
  std::vector<SettingDifference> differences;
  for (const SettingRow& row : all_settings()) {
    const std::string left = value_in(row, a), right = value_in(row, b);
    if (left != right) differences.push_back({row.name, left, right});
  }
  return differences;
}

bool differ_in_program_alone(const RunSpec& a, const RunSpec& b) {
  constexpr std::array kOfProgram = {"program", "workers", "transport", "p2p", "overlap-steps", "scale-grads"};
  const auto differences = settings_that_differ(a, b);
  const bool one_thread_alike =
      a.strategy == Strategy::single || (a.workers == Workers::one) == (b.workers == Workers::one);
  return a.program != b.program && one_thread_alike &&
         std::all_of(differences.begin(), differences.end(), [&](const auto& difference) {
           return std::find(kOfProgram.begin(), kOfProgram.end(), difference.name) != kOfProgram.end();
         });
}

nlohmann::ordered_json compare_json(const RunResult& a, const std::string& name_a, const RunResult& b,
                                    const std::string& name_b) {
  using nlohmann::ordered_json;
  ordered_json out = {{"a", name_a}, {"b", name_b}, {"a_measured", a.measured}, {"b_measured", b.measured}};
  out["settings_that_differ"] = ordered_json::array();
  for (const SettingDifference& d : settings_that_differ(a.spec, b.spec)) {
    out["settings_that_differ"].push_back({{"name", d.name}, {"a", d.a}, {"b", d.b}});
  }
  if (const auto found = measured_in_prediction(a, b)) out["measured_inside"] = found->inside;
  const auto number = [](const std::optional<double>& value) { return value ? ordered_json(*value) : ordered_json(); };
  for (ComparedQuantity q : compared_quantities(a, compute_metrics(a), b, compute_metrics(b))) {
    std::replace(q.key.begin(), q.key.end(), ' ', '_');
    if (q.key.starts_with("mean_")) q.key += "_ms";
    const bool known = q.a && q.b && (*q.b != 0 || *q.a == 0);
    out[q.key] = {{"a", number(q.a)}, {"b", number(q.b)}, {"difference_percent", nullptr}};
    if (known) out[q.key]["difference_percent"] = *q.b == 0 ? 0.0 : 100 * (*q.a - *q.b) / *q.b;
  }
  return out;
}

}  // namespace pdl
