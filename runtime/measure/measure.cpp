#include "runtime/measure/measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/comm/rendezvous.hpp"
#include "runtime/executor/devices.hpp"
#include "runtime/measure/environment.hpp"
#include "runtime/measure/span_recorder.hpp"
#include "sim/report/metrics.hpp"
#include "sim/spec/error.hpp"

namespace pdl {
namespace {

struct Interval {
  std::int64_t begin_ns = 0;  // of the host's steady clock
  std::int64_t end_ns = 0;
};

struct RecordedInterval {
  Interval step;
  RecordedStep tasks;
};

/// What one process knows of a run.
struct Record {
  std::vector<Interval> steps;
  std::vector<RecordedInterval> recorded;
  std::vector<double> losses;                   // empty: this process does not hold the last stage
  std::vector<std::int64_t> peak_memory_bytes;  // of its own workers; empty on CPU
};

double to_ms(const Interval& interval) { return static_cast<double>(interval.end_ns - interval.begin_ns) / 1e6; }

nlohmann::json to_json(const Interval& interval) { return {interval.begin_ns, interval.end_ns}; }
Interval interval_from(const nlohmann::json& json) { return {json[0], json[1]}; }

std::string pack(const Record& record) {
  nlohmann::json json = {{"losses", record.losses}, {"memory", record.peak_memory_bytes}};
  json["steps"] = nlohmann::json::array();
  for (const Interval& step : record.steps) json["steps"].push_back(to_json(step));
  json["recorded"] = nlohmann::json::array();
  for (const RecordedInterval& recorded : record.recorded) {
    std::vector<std::int64_t> times;
    for (const TaskTimes& task : recorded.tasks.times) times.insert(times.end(), {task.start_ns, task.end_ns});
    json["recorded"].push_back({to_json(recorded.step), times, recorded.tasks.clock_uncertainty_us});
  }
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(json);
  return {bytes.begin(), bytes.end()};
}

Record unpack(const std::string& text) {
  const nlohmann::json json = nlohmann::json::from_cbor(text.begin(), text.end());
  Record record;
  record.losses = json["losses"].get<std::vector<double>>();
  record.peak_memory_bytes = json["memory"].get<std::vector<std::int64_t>>();
  for (const auto& step : json["steps"]) record.steps.push_back(interval_from(step));
  for (const auto& packed : json["recorded"]) {
    RecordedInterval recorded{interval_from(packed[0]), {}};
    const auto times = packed[1].get<std::vector<std::int64_t>>();
    for (std::size_t i = 0; i + 1 < times.size(); i += 2) recorded.tasks.times.push_back({times[i], times[i + 1]});
    recorded.tasks.clock_uncertainty_us = packed[2];
    record.recorded.push_back(std::move(recorded));
  }
  return record;
}

void join(Interval& into, const Interval& other) {
  into.begin_ns = std::min(into.begin_ns, other.begin_ns);
  into.end_ns = std::max(into.end_ns, other.end_ns);
}

/// Adds what another process knows: its tasks, its losses, its devices.
void join(Record& into, const Record& other) {
  for (std::size_t i = 0; i < into.steps.size(); ++i) join(into.steps[i], other.steps[i]);
  for (std::size_t i = 0; i < into.recorded.size(); ++i) {
    RecordedInterval& recorded = into.recorded[i];
    join(recorded.step, other.recorded[i].step);
    for (std::size_t t = 0; t < recorded.tasks.times.size(); ++t) {
      const TaskTimes& times = other.recorded[i].tasks.times[t];
      if (times.end_ns != 0) recorded.tasks.times[t] = times;
    }
    recorded.tasks.clock_uncertainty_us =
        std::max(recorded.tasks.clock_uncertainty_us, other.recorded[i].tasks.clock_uncertainty_us);
  }
  if (!other.losses.empty()) into.losses = other.losses;
  into.peak_memory_bytes.insert(into.peak_memory_bytes.end(), other.peak_memory_bytes.begin(),
                                other.peak_memory_bytes.end());
}

class Stopwatch {
 public:
  Stopwatch(const Plan& plan, const RuntimeOptions& options, StepProgram& program, Rendezvous* rendezvous)
      : program_(program),
        rendezvous_(rendezvous),
        holds_loss_(options.is_local(plan.stages.back().worker)) {}

  Interval step(SpanRecorder* recorder) {
    if (rendezvous_) rendezvous_->barrier();
    Interval interval;
    interval.begin_ns = steady_now_ns();
    program_.step(recorder);
    interval.end_ns = steady_now_ns();
    if (holds_loss_) keep_loss();
    return interval;
  }

  const std::vector<double>& losses() const { return losses_; }

 private:
  void keep_loss() {
    losses_.push_back(program_.loss());
    if (!std::isfinite(losses_.back())) {
      throw CannotRun("the loss of step " + std::to_string(losses_.size() - 1) + " is not a finite number");
    }
  }

  StepProgram& program_;
  Rendezvous* rendezvous_;
  bool holds_loss_;
  std::vector<double> losses_;
};

/// The recorded step whose time is nearest to the median of the recorded steps.
const RecordedInterval& typical(const std::vector<RecordedInterval>& recorded, double median_ms) {
  return *std::min_element(recorded.begin(), recorded.end(), [&](const auto& a, const auto& b) {
    return std::abs(to_ms(a.step) - median_ms) < std::abs(to_ms(b.step) - median_ms);
  });
}

/// From the start of the step. The clocks of the devices are known to some microseconds: a span may seem to begin before
/// the step or to end after it, and is then cut or the step made longer by as much.
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

std::vector<double> milliseconds_of(const Record& record, bool recorded) {
  std::vector<double> ms;
  if (recorded) {
    for (const RecordedInterval& interval : record.recorded) ms.push_back(to_ms(interval.step));
  } else {
    for (const Interval& interval : record.steps) ms.push_back(to_ms(interval));
  }
  return ms;
}

/// Where the next step would start before this one has ended: the time of the worker that is at it longest, in each
/// recorded step (sim/report/metrics.hpp).
std::vector<double> overlapping_steps_ms(const Plan& plan, const Record& record) {
  std::vector<double> ms;
  for (const RecordedInterval& recorded : record.recorded) {
    ms.push_back(static_cast<double>(longest_worker_ns(make_measured_timeline(plan, recorded))) / 1e6);
  }
  return ms;
}

RunResult make_result(const Plan& plan, const Record& record, nlohmann::json environment) {
  RunResult result = begin_result(plan);
  result.measured = true;
  const std::vector<double> steps_ms = steps_overlap(plan.spec) ? overlapping_steps_ms(plan, record) : milliseconds_of(record, false);
  const Quartiles measured = quartiles(steps_ms);
  result.step_time = {measured.median, measured.p25, measured.p75, static_cast<std::int64_t>(steps_ms.size())};
  const double recorded_ms = quartiles(milliseconds_of(record, true)).median;
  const RecordedInterval& step = typical(record.recorded, recorded_ms);
  result.timeline = make_measured_timeline(plan, step);
  result.peak_memory_bytes = record.peak_memory_bytes;
  result.environment = std::move(environment);
  result.extra = {{"losses", record.losses},
                  {"recording",
                   {{"step_time_ms", recorded_ms},
                    {"overhead_fraction", recorded_ms / quartiles(milliseconds_of(record, false)).median - 1},
                    {"clock_uncertainty_us", step.tasks.clock_uncertainty_us}}}};
  return result;
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

RunResult measure(const Plan& plan, const RuntimeOptions& options, StepProgram& program, const std::string& command,
                  Rendezvous* rendezvous) {
  SpanRecorder recorder(plan.graph, options);
  Stopwatch stopwatch(plan, options, program, rendezvous);
  Record record;
  for (int i = 0; i < options.warmup; ++i) stopwatch.step(nullptr);
  for (int i = 0; i < options.steps; ++i) record.steps.push_back(stopwatch.step(nullptr));
  // Here, so that clocks and power are those of devices that have just worked.
  const nlohmann::json environment = describe_environment(options, static_cast<int>(plan.graph.workers), command);
  const int recorded_steps = steps_overlap(plan.spec) ? std::max(options.steps, options.recorded_steps) : options.recorded_steps;
  for (int i = 0; i < recorded_steps; ++i) {
    recorder.begin_step();
    const Interval step = stopwatch.step(&recorder);
    recorder.end_step();
    record.recorded.push_back({step, recorder.recorded()});
  }
  record.losses = stopwatch.losses();
  record.peak_memory_bytes = peak_memory(plan, options);
  if (rendezvous) {
    const std::vector<std::string> all = rendezvous->gather("record", pack(record));
    for (std::size_t r = 1; r < all.size(); ++r) join(record, unpack(all[r]));
  }
  return make_result(plan, record, environment);
}

}  // namespace pdl
