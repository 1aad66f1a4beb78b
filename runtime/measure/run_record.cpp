#include "runtime/measure/run_record.hpp"

#include <algorithm>
#include <utility>

namespace pdl {
namespace {

nlohmann::json to_json(const StepInterval& interval) {
  return {interval.begin_ns, interval.end_ns, interval.skipped};
}
StepInterval interval_from(const nlohmann::json& json) {
  return {json[0], json[1], json[2]};
}

nlohmann::json to_json(const std::vector<StepInterval>& intervals) {
  nlohmann::json json = nlohmann::json::array();
  for (const StepInterval& interval : intervals) json.push_back(to_json(interval));
  return json;
}
std::vector<StepInterval> intervals_from(const nlohmann::json& json) {
  std::vector<StepInterval> intervals;
  for (const auto& interval : json) intervals.push_back(interval_from(interval));
  return intervals;
}

void join(StepInterval& into, const StepInterval& other) {
  into.begin_ns = std::min(into.begin_ns, other.begin_ns);
  into.end_ns = std::max(into.end_ns, other.end_ns);
}

}  // namespace

std::string pack(const RunRecord& record) {
  nlohmann::json json = {{"losses", record.losses},
                         {"memory", record.peak_memory_bytes},
                         {"process_memory", record.process_peak_memory_bytes},
                         {"cards", record.cards},
                         {"gpus", record.gpus}};
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

RunRecord unpack(const std::string& text) {
  return record_from(nlohmann::json::from_cbor(text.begin(), text.end()));
}

RunRecord record_from(const nlohmann::json& json) {
  RunRecord record;
  record.losses = json["losses"].get<std::vector<double>>();
  record.peak_memory_bytes = json["memory"].get<std::vector<std::int64_t>>();
  record.process_peak_memory_bytes = json["process_memory"].get<std::vector<std::int64_t>>();
  record.cards = json["cards"].get<std::vector<std::string>>();
  record.gpus = json["gpus"];
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

void join(RunRecord& into, const RunRecord& other) {
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
  into.gpus.insert(into.gpus.end(), other.gpus.begin(), other.gpus.end());
  into.cards.insert(into.cards.end(), other.cards.begin(), other.cards.end());
  into.peak_memory_bytes.insert(into.peak_memory_bytes.end(), other.peak_memory_bytes.begin(),
                                other.peak_memory_bytes.end());
  into.process_peak_memory_bytes.insert(into.process_peak_memory_bytes.end(), other.process_peak_memory_bytes.begin(),
                                        other.process_peak_memory_bytes.end());
}

}  // namespace pdl
