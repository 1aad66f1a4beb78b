#include "runtime/measure/measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/comm/rendezvous.hpp"
#include "runtime/executor/devices.hpp"
#include "runtime/measure/environment.hpp"
#include "runtime/measure/span_recorder.hpp"
#include "sim/report/metrics.hpp"
#include "sim/spec/error.hpp"

namespace pdl {
namespace {

struct Interval {
  std::int64_t begin_ns = 0;  // of the host's steady clock, or since the barrier
  std::int64_t end_ns = 0;
  bool skipped = false;       // its gradients were not finite
};

struct RecordedInterval {
  Interval step;
  RecordedStep tasks;
};

/// What one process knows of a run.
struct Record {
  std::vector<Interval> warmup;
  std::vector<Interval> steps;
  std::vector<RecordedInterval> recorded;
  std::vector<double> losses;                   // empty: this process holds no last stage; else its part of each
  std::vector<std::int64_t> skipped;            // steps, by their place in `losses`
  std::vector<std::int64_t> peak_memory_bytes;  // of its own workers; empty on CPU
  std::vector<std::string> cards;               // of its own workers; empty on CPU
};

double to_ms(const Interval& interval) { return static_cast<double>(interval.end_ns - interval.begin_ns) / 1e6; }

nlohmann::json to_json(const Interval& interval) { return {interval.begin_ns, interval.end_ns, interval.skipped}; }
Interval interval_from(const nlohmann::json& json) { return {json[0], json[1], json[2]}; }

nlohmann::json to_json(const std::vector<Interval>& intervals) {
  nlohmann::json json = nlohmann::json::array();
  for (const Interval& interval : intervals) json.push_back(to_json(interval));
  return json;
}
std::vector<Interval> intervals_from(const nlohmann::json& json) {
  std::vector<Interval> intervals;
  for (const auto& interval : json) intervals.push_back(interval_from(interval));
  return intervals;
}

std::string pack(const Record& record) {
  nlohmann::json json = {{"losses", record.losses}, {"memory", record.peak_memory_bytes}, {"cards", record.cards}};
  json["warmup"] = to_json(record.warmup);
  json["steps"] = to_json(record.steps);
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
  record.cards = json["cards"].get<std::vector<std::string>>();
  record.warmup = intervals_from(json["warmup"]);
  record.steps = intervals_from(json["steps"]);
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
  for (std::size_t i = 0; i < into.warmup.size(); ++i) join(into.warmup[i], other.warmup[i]);
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
  if (into.losses.empty()) {
    into.losses = other.losses;
  } else {
    for (std::size_t i = 0; i < other.losses.size(); ++i) into.losses[i] += other.losses[i];
  }
  into.cards.insert(into.cards.end(), other.cards.begin(), other.cards.end());
  into.peak_memory_bytes.insert(into.peak_memory_bytes.end(), other.peak_memory_bytes.begin(),
                                other.peak_memory_bytes.end());
}

class Stopwatch {
 public:
  Stopwatch(const Plan& plan, const RuntimeOptions& options, StepProgram& program, Rendezvous* rendezvous)
      : program_(program),
        rendezvous_(rendezvous),
        holds_loss_(holds_a_last_stage(plan, options)) {}

  Interval step(SpanRecorder* recorder) {
    if (rendezvous_) rendezvous_->barrier();
    Interval interval;
    interval.begin_ns = steady_now_ns();
    program_.step(recorder);
    interval.end_ns = steady_now_ns();
    interval.skipped = program_.skipped();
    if (interval.skipped) skipped_.push_back(steps_);
    ++steps_;
    if (holds_loss_) keep_loss();
    return interval;
  }

  const std::vector<double>& losses() const { return losses_; }
  const std::vector<std::int64_t>& skipped() const { return skipped_; }

 private:
  static bool holds_a_last_stage(const Plan& plan, const RuntimeOptions& options) {
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      if (is_last_stage(plan.stages, s) && options.is_local(plan.stages[s].worker)) return true;
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
  bool holds_loss_;
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

std::vector<double> milliseconds_of(const std::vector<Interval>& intervals) {
  std::vector<double> ms;
  for (const Interval& interval : intervals) ms.push_back(to_ms(interval));
  return ms;
}

std::vector<double> milliseconds_of(const Record& record, bool recorded) {
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
/// recorded step (sim/report/metrics.hpp).
std::vector<double> overlapping_steps_ms(const Plan& plan, const Record& record) {
  std::vector<double> ms;
  for (const RecordedInterval& recorded : record.recorded) {
    ms.push_back(static_cast<double>(longest_worker_ns(make_measured_timeline(plan, recorded))) / 1e6);
  }
  return ms;
}

/// Without the steps that the scaler skipped: they are shorter, and no training. Throws CannotRun if no step is left.
Record taken_steps(Record record) {
  const std::size_t measured = record.steps.size(), recorded = record.recorded.size();
  std::erase_if(record.steps, [](const Interval& step) { return step.skipped; });
  std::erase_if(record.recorded, [](const RecordedInterval& step) { return step.step.skipped; });
  const auto refuse = [](const std::string& steps) {
    throw CannotRun("all " + steps + " steps were skipped, because gradients were not finite in fp16: a lower --loss-scale or more "
                    "--warmup steps, or amp-bf16");
  };
  if (record.steps.empty()) refuse(std::to_string(measured) + " measured");
  if (record.recorded.empty()) refuse(std::to_string(recorded) + " recorded");
  return record;
}

std::vector<std::string> warnings_of(const Record& record, const Rendezvous* rendezvous) {
  std::vector<std::string> warnings;
  for (std::size_t w = 1; w < record.cards.size(); ++w) {
    if (record.cards[w] == record.cards[0]) continue;
    warnings.push_back("mixed cards: GPU 0 is a " + record.cards[0] + ", GPU " + std::to_string(w) + " a " + record.cards[w] +
                       "; a step takes as long as the slowest");
  }
  if (rendezvous && rendezvous->hosts() > 1) {
    warnings.push_back("the clocks of " + std::to_string(rendezvous->hosts()) +
                       " hosts are not compared: the times of each worker count from when it left the barrier before the step");
  }
  return warnings;
}

RunResult make_result(const Plan& plan, const Record& all, nlohmann::json environment) {
  const Record record = taken_steps(all);
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
                  {"warmup_ms", milliseconds_of(record.warmup)},
                  {"step_time_stddev_ms", standard_deviation(steps_ms)},
                  {"recording",
                   {{"step_time_ms", recorded_ms},
                    {"overhead_fraction", recorded_ms / quartiles(milliseconds_of(record, false)).median - 1},
                    {"clock_uncertainty_us", step.tasks.clock_uncertainty_us}}}};
  if (plan.spec.dtype == Dtype::amp_fp16) {
    result.extra["skipped_steps"] = all.steps.size() - record.steps.size();
    result.extra["skipped"] = record.skipped;
  }
  return result;
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

void count_from_start(Record& record) {
  for (Interval& step : record.warmup) step = {0, step.end_ns - step.begin_ns, step.skipped};
  for (Interval& step : record.steps) step = {0, step.end_ns - step.begin_ns, step.skipped};
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

RunResult measure(const Plan& plan, const RuntimeOptions& options, StepProgram& program, const std::string& command,
                  Rendezvous* rendezvous) {
  SpanRecorder recorder(plan.graph, options);
  Stopwatch stopwatch(plan, options, program, rendezvous);
  Record record;
  for (int i = 0; i < options.warmup; ++i) record.warmup.push_back(stopwatch.step(nullptr));
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
  record.skipped = stopwatch.skipped();
  record.peak_memory_bytes = peak_memory(plan, options);
  record.cards = cards(plan, options);
  if (rendezvous && rendezvous->hosts() > 1) count_from_start(record);
  if (rendezvous) {
    const std::vector<std::string> all = rendezvous->gather("record", pack(record));
    for (std::size_t r = 1; r < all.size(); ++r) join(record, unpack(all[r]));
  }
  RunResult result = make_result(plan, record, environment);
  if (const std::optional<double> scale = program.loss_scale()) result.extra["loss_scale"] = *scale;
  for (std::string& warning : warnings_of(record, rendezvous)) result.warnings.push_back(std::move(warning));
  return result;
}

}  // namespace pdl
