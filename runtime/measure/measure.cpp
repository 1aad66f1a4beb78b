#include "runtime/measure/measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>

#include "runtime/comm/rendezvous.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/measure/environment.hpp"
#include "runtime/measure/run_record.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/error.hpp"
#include "sim/run/metrics.hpp"

namespace pdl {
namespace {

double to_ms(const StepInterval& interval) {
  return static_cast<double>(interval.end_ns - interval.begin_ns) / 1e6;
}

int recorded_steps(const Plan& plan, const RuntimeOptions& options) {
  return steps_overlap(plan.spec) ? std::max(options.steps, options.recorded_steps) : options.recorded_steps;
}

class Stopwatch {
 public:
  Stopwatch(const Plan& plan, const RuntimeOptions& options, StepProgram& program, Rendezvous* rendezvous,
            const StepsDone& steps_done)
      : program_(program),
        rendezvous_(rendezvous),
        steps_done_(steps_done),
        holds_loss_(holds_a_last_stage(plan, options)),
        all_steps_(options.warmup + options.steps + recorded_steps(plan, options)) {
    if (steps_done_) steps_done_(steps_, all_steps_);
  }

  StepInterval step(SpanRecorder* recorder) {
    if (rendezvous_) rendezvous_->barrier();
    StepInterval interval;
    interval.begin_ns = steady_now_ns();
    program_.step(recorder);
    interval.end_ns = steady_now_ns();
    interval.skipped = program_.skipped();
    if (interval.skipped) skipped_.push_back(steps_);
    ++steps_;
    if (holds_loss_) keep_loss();
    if (steps_done_) steps_done_(steps_, all_steps_);
    return interval;
  }

  const std::vector<double>& losses() const { return losses_; }
  const std::vector<std::int64_t>& skipped() const { return skipped_; }

 private:
  static bool holds_a_last_stage(const Plan& plan, const RuntimeOptions& options) {
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      if (is_last_stage(plan.stages, s) && options.is_local(only_worker(plan.stages[s]))) return true;
    }
    return false;
  }

  void keep_loss() {
    losses_.push_back(program_.loss());
    if (!std::isfinite(losses_.back())) {
      throw CannotRun("the loss of step " + std::to_string(losses_.size() - 1) + " is not a finite number");
    }
  }

  StepProgram& program_;
  Rendezvous* rendezvous_;
  const StepsDone& steps_done_;
  bool holds_loss_;
  int all_steps_;
  std::int64_t steps_ = 0;
  std::vector<double> losses_;
  std::vector<std::int64_t> skipped_;
};

/// The recorded step whose time is nearest to the median of the recorded steps.
const RecordedInterval& typical(const std::vector<RecordedInterval>& recorded, double median_ms) {
  return *std::min_element(recorded.begin(), recorded.end(), [&](const auto& a, const auto& b) {
    return std::abs(to_ms(a.step) - median_ms) < std::abs(to_ms(b.step) - median_ms);
  });
}

/// From the start of the step. The clocks of the devices are known to some microseconds: a span may seem to begin
/// before the step or to end after it, and is then cut or the step made longer by as much.
Timeline make_measured_timeline(const Plan& plan, const RecordedInterval& recorded) {
  std::vector<TaskTimes> times = recorded.tasks.times;
  for (TaskTimes& task : times) {
    task.start_ns = std::max<std::int64_t>(0, task.start_ns - recorded.step.begin_ns);
    task.end_ns = std::max(task.start_ns, task.end_ns - recorded.step.begin_ns);
  }
  Timeline timeline = make_timeline(plan.graph, static_cast<std::int32_t>(plan.stages.size()), times);
  timeline.step_ns = std::max(timeline.step_ns, recorded.step.end_ns - recorded.step.begin_ns);
  return timeline;
}

std::vector<double> milliseconds_of(const std::vector<StepInterval>& intervals) {
  std::vector<double> ms;
  for (const StepInterval& interval : intervals) ms.push_back(to_ms(interval));
  return ms;
}

std::vector<double> milliseconds_of(const RunRecord& record, bool recorded) {
  if (!recorded) return milliseconds_of(record.steps);
  std::vector<double> ms;
  for (const RecordedInterval& interval : record.recorded) ms.push_back(to_ms(interval.step));
  return ms;
}

/// Of a sample: divided by one less than the number of values. 0 of one value.
double standard_deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (n - 1));
}

/// Where the next step would start before this one has ended: the time of the worker that is at it longest, in each
/// recorded step (sim/run/metrics.hpp).
std::vector<double> overlapping_steps_ms(const Plan& plan, const RunRecord& record) {
  std::vector<double> ms;
  for (const RecordedInterval& recorded : record.recorded) {
    ms.push_back(static_cast<double>(longest_worker_ns(make_measured_timeline(plan, recorded))) / 1e6);
  }
  return ms;
}

/// Without the steps that the scaler skipped: they are shorter, and no training. Throws CannotRun if no step is left.
RunRecord taken_steps(RunRecord record) {
  const std::size_t measured = record.steps.size(), recorded = record.recorded.size();
  std::erase_if(record.steps, [](const StepInterval& step) { return step.skipped; });
  std::erase_if(record.recorded, [](const RecordedInterval& step) { return step.step.skipped; });
  const auto refuse = [](const std::string& steps) {
    throw CannotRun("all " + steps +
                    " steps were skipped, because gradients were not finite in fp16: a lower --loss-scale or more "
                    "--warmup steps, or amp-bf16");
  };
  if (record.steps.empty()) refuse(std::to_string(measured) + " measured");
  if (record.recorded.empty()) refuse(std::to_string(recorded) + " recorded");
  return record;
}

std::vector<std::string> warnings_of(const RunRecord& record, const Rendezvous* rendezvous) {
  std::vector<std::string> warnings;
  for (std::size_t w = 1; w < record.cards.size(); ++w) {
    if (record.cards[w] == record.cards[0]) continue;
    warnings.push_back("mixed GPUs: GPU 0 is a " + record.cards[0] + ", GPU " + std::to_string(w) + " a " +
                       record.cards[w] + "; a step takes as long as the slowest");
  }
  if (rendezvous && rendezvous->hosts() > 1) {
    warnings.push_back(
        "the clocks of " + std::to_string(rendezvous->hosts()) +
        " hosts are not compared: the times of each worker count from when it left the barrier before the step");
  }
  return warnings;
}

/// Warm-up and measured steps in order, skipped ones too. Losses are there one a step, recorded steps behind them.
std::vector<MeasuredStep> steps_of(const RunRecord& record) {
  std::vector<MeasuredStep> steps;
  const auto add = [&](const StepInterval& interval, bool warmup) {
    MeasuredStep step{to_ms(interval), std::nullopt, warmup};
    if (steps.size() < record.losses.size()) step.loss = record.losses[steps.size()];
    steps.push_back(step);
  };
  for (const StepInterval& interval : record.warmup) add(interval, true);
  for (const StepInterval& interval : record.steps) add(interval, false);
  return steps;
}

/// Without a clock that all processes share: from the barrier that this one left just before the step.
void count_from_start(RecordedInterval& recorded) {
  const std::int64_t start_ns = recorded.step.begin_ns;
  recorded.step.begin_ns -= start_ns;
  recorded.step.end_ns -= start_ns;
  for (TaskTimes& task : recorded.tasks.times) {
    if (task.end_ns == 0) continue;  // of another process
    task.start_ns -= start_ns;
    task.end_ns = std::max<std::int64_t>(1, task.end_ns - start_ns);
  }
}

void count_from_start(RunRecord& record) {
  for (StepInterval& step : record.warmup) step = {0, step.end_ns - step.begin_ns, step.skipped};
  for (StepInterval& step : record.steps) step = {0, step.end_ns - step.begin_ns, step.skipped};
  for (RecordedInterval& recorded : record.recorded) count_from_start(recorded);
}

std::vector<std::string> cards(const Plan& plan, const RuntimeOptions& options) {
  std::vector<std::string> names;
  for (int worker = 0; options.device == DeviceKind::cuda && worker < static_cast<int>(plan.graph.workers); ++worker) {
    if (options.is_local(worker)) names.push_back(card_name(options.device_index(worker)));
  }
  return names;
}

std::vector<std::int64_t> peak_memory(const Plan& plan, const RuntimeOptions& options) {
  std::vector<std::int64_t> bytes;
  if (options.device == DeviceKind::cpu) return bytes;
  for (int worker = 0; worker < static_cast<int>(plan.graph.workers); ++worker) {
    if (options.is_local(worker)) bytes.push_back(peak_memory_bytes(options.device_index(worker)));
  }
  return bytes;
}

}  // namespace

Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double fraction) {
    const double place = fraction * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
  };
  return {at(0.25), at(0.5), at(0.75)};
}

RunResult run_of_record(const Plan& plan, const RunRecord& all, nlohmann::json environment) {
  const RunRecord record = taken_steps(all);
  RunResult result = begin_result(plan);
  result.measured = true;
  const std::vector<double> steps_ms =
      steps_overlap(plan.spec) ? overlapping_steps_ms(plan, record) : milliseconds_of(record, false);
  const Quartiles measured = quartiles(steps_ms);
  result.step_time = {measured.median, measured.p25, measured.p75, static_cast<std::int64_t>(steps_ms.size())};
  const double recorded_ms = quartiles(milliseconds_of(record, true)).median;
  const RecordedInterval& step = typical(record.recorded, recorded_ms);
  result.steps = steps_of(all);
  result.timeline = make_measured_timeline(plan, step);
  result.peak_memory_bytes = record.peak_memory_bytes;
  result.environment = std::move(environment);
  result.extra = {{"losses", record.losses},
                  {"warmup_ms", milliseconds_of(record.warmup)},
                  {"step_time_stddev_ms", standard_deviation(steps_ms)},
                  {"recording",
                   {{"step_time_ms", recorded_ms},
                    {"overhead_fraction", recorded_ms / quartiles(milliseconds_of(record, false)).median - 1},
                    {"clock_uncertainty_us", step.tasks.clock_uncertainty_us}}}};
  if (!record.process_peak_memory_bytes.empty())
    result.extra["process_peak_memory_bytes"] = record.process_peak_memory_bytes;
  if (plan.spec.dtype == Dtype::amp_fp16) {
    result.extra["skipped_steps"] = all.steps.size() - record.steps.size();
    result.extra["skipped"] = record.skipped;
  }
  return result;
}

RunResult measure_run(const Plan& plan, const RuntimeOptions& options, StepProgram& program, const std::string& command,
                      Rendezvous* rendezvous, const StepsDone& steps_done) {
  SpanRecorder recorder(plan.graph, options);
  Stopwatch stopwatch(plan, options, program, rendezvous, steps_done);
  RunRecord record;
  for (int i = 0; i < options.warmup; ++i) record.warmup.push_back(stopwatch.step(nullptr));
  for (int i = 0; i < options.steps; ++i) record.steps.push_back(stopwatch.step(nullptr));
  // Here, so that clocks and power are those of devices that have just worked.
  nlohmann::json environment = describe_environment(options, static_cast<int>(plan.graph.workers), command);
  record.gpus = describe_gpus(options, static_cast<int>(plan.graph.workers));
  for (int i = 0; i < recorded_steps(plan, options); ++i) {
    recorder.begin_step();
    const StepInterval step = stopwatch.step(&recorder);
    recorder.end_step();
    record.recorded.push_back({step, recorder.recorded()});
  }
  record.losses = stopwatch.losses();
  record.skipped = stopwatch.skipped();
  record.peak_memory_bytes = peak_memory(plan, options);
  if (options.device == DeviceKind::cpu) record.process_peak_memory_bytes = {process_peak_memory_bytes()};
  record.cards = cards(plan, options);
  if (rendezvous && rendezvous->hosts() > 1) count_from_start(record);
  if (rendezvous) {
    const std::vector<std::string> all = rendezvous->gather("record", pack(record));
    for (std::size_t r = 1; r < all.size(); ++r) join(record, unpack(all[r]));
  }
  if (!record.gpus.empty()) environment["gpus"] = record.gpus;
  RunResult result = run_of_record(plan, record, std::move(environment));
  if (const std::optional<double> scale = program.loss_scale()) result.extra["loss_scale"] = *scale;
  for (std::string& warning : warnings_of(record, rendezvous)) result.warnings.push_back(std::move(warning));
  return result;
}

}  // namespace pdl
