#include "sim/course/answer_words.hpp"

#include <cmath>

#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/run/concurrency.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {

bool is_host_bound(const ScenarioRow& row) {
  const auto& warnings = row.predicted.result.warnings;
  return std::any_of(warnings.begin(), warnings.end(),
                     [](const std::string& warning) { return warning.starts_with(kHostBoundWarning); });
}

std::string recording_text(const EvaluatedRun& run) {
  const auto more = unusual_recording(run.result);
  if (!more) return "";
  return "; of a recorded step " + percent(std::abs(*more)) + (*more > 0 ? " longer" : " shorter") +
         " than the median step";
}

const EvaluatedRun& of(const ScenarioRow& row, Side side) {
  return side == Side::measured ? *row.measured : row.predicted;
}
double step_ms(const ScenarioRow& row, Side side) {
  return of(row, side).result.step_time.median_ms;
}
std::string name(Side side) {
  return side == Side::measured ? "measured" : "predicted";
}

std::string ms(double value) {
  return fixed(value, 2) + " ms";
}
std::string ms_of(std::int64_t ns) {
  return ms(static_cast<double>(ns) / 1e6);
}
std::string count_of(std::int64_t count, const std::string& what, const std::string& plural) {
  return grouped(count) + " " + what + (count == 1 ? "" : plural);
}
std::string gpus_of(const ScenarioRow& row) {
  return count_of(row.spec.gpus, "GPU");
}

std::int64_t microbatches_of(const ScenarioRow& row) {
  return static_cast<std::int64_t>(row.predicted.result.microbatch_rows.size());
}
std::string microbatches_text(const ScenarioRow& row) {
  return count_of(microbatches_of(row), "micro-batch", "es");
}

Difference difference_to(double value, double than) {
  if (std::abs(value / than - 1) <= kSameWithin) return Difference::none;
  return value > than ? Difference::more : Difference::less;
}

std::string time_as_long(double time_ms, double than_ms) {
  if (difference_to(time_ms, than_ms) == Difference::none)
    return "as long as (within " + to_text(100 * kSameWithin) + " %)";
  return fixed(time_ms / than_ms, 2) + " times as long as";
}

std::string step_of_spans(Side side) {
  return side == Side::measured ? "recorded step" : "step";
}

std::string difference_text(double fraction) {
  constexpr double kSmall = 1e-4;
  return fraction < kSmall ? fixed(1e6 * fraction, 1) + " millionths" : fixed(100 * fraction, 3) + " %";
}

std::string least_to_most(double least, double most, const std::string& unit) {
  const std::string from = fixed(least, 1), to = fixed(most, 1);
  return (from == to ? from : from + " to " + to) + " " + unit;
}

std::string busy_range(const EvaluatedRun& run) {
  double least = 100, most = 0;
  for (const GpuMetrics& gpu : run.metrics.gpus) {
    const double share = 100 * static_cast<double>(gpu.busy_ns) / static_cast<double>(run.metrics.step_ns);
    least = std::min(least, share);
    most = std::max(most, share);
  }
  return least_to_most(least, most, "%");
}

std::int64_t largest_memory(const EvaluatedRun& run) {
  const auto& bytes = run.result.peak_memory_bytes;
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

std::string memory_like(std::int64_t bytes, std::int64_t largest) {
  return largest < 1 << 30 ? mib(bytes) + " MiB" : gib(bytes) + " GiB";
}

std::string at_once_text(const EvaluatedRun& run) {
  const Concurrency at_once = concurrency(run.result);
  return "at most " + std::to_string(at_once.most) + " of " + count_of(run.result.spec.gpus, "GPU") +
         " compute at once, " + fixed(at_once.average, 2) + " on average";
}

std::string model_text(const RunSpec& spec) {
  const std::string layers = count_of(spec.depth, "layer");
  const std::string model =
      spec.model_name == "mlp" ? layers + " of " + std::to_string(spec.dim) : spec.model_name + " (" + layers + ")";
  return model + ", batch " + std::to_string(spec.batch);
}

std::string work_text(const RunSpec& spec) {
  return model_text(spec) + (spec.accum > 1 ? ", " + std::to_string(spec.accum) + " accumulation steps" : "") +
         (spec.delay_ms > 0 ? ", a delay of " + to_text(spec.delay_ms) + " ms" : "");
}

std::string listed(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == items.size() ? " and " : ", ") + items[i];
  }
  return text;
}

}  // namespace pdl
