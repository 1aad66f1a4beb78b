#include "sim/run/measured_facts.hpp"

#include <algorithm>
#include <cmath>

#include "sim/io/error.hpp"
#include "sim/run/run_name.hpp"

namespace pdl {
namespace {

template <typename Value>
void read_fact(const RunResult& run, const char* key, Value& into) {
  if (!run.extra.is_object() || !run.extra.contains(key)) return;
  try {
    into = run.extra.at(key).template get<Value>();
  } catch (const nlohmann::json::exception&) {
    throw InputError(run_name(run.spec) + ": extra." + key, run.extra.at(key).dump().substr(0, 40),
                     "as pdl-run writes it");
  }
}

/// Of the machine that the run was measured on, or of that of its profile; empty where it is not said.
std::string word_of_host(const RunResult& run, const char* key) {
  const nlohmann::json* host = &run.environment;
  if (!run.measured) host = host->is_object() && host->contains("profile") ? &host->at("profile") : nullptr;
  if (!host || !host->is_object()) return "";
  const auto word = host->find(key);
  return word != host->end() && word->is_string() ? word->get<std::string>() : "";
}

}  // namespace

MeasuredFacts measured_facts(const RunResult& run) {
  MeasuredFacts facts;
  if (!run.measured) return facts;
  for (const MeasuredStep& step : run.steps) {
    (step.warmup ? facts.warmup_ms : facts.steps_ms).push_back(step.step_time_ms);
    if (step.loss) facts.losses.push_back(*step.loss);
  }
  read_fact(run, "losses", facts.losses);
  read_fact(run, "warmup_ms", facts.warmup_ms);
  read_fact(run, "skipped", facts.skipped);
  read_fact(run, "process_peak_memory_bytes", facts.process_peak_memory_bytes);
  double stddev_ms = -1;
  read_fact(run, "step_time_stddev_ms", stddev_ms);
  if (stddev_ms >= 0) facts.step_time_stddev_ms = stddev_ms;
  nlohmann::json recording;
  read_fact(run, "recording", recording);
  if (recording.is_object() && recording.contains("overhead_fraction")) {
    const nlohmann::json& overhead = recording["overhead_fraction"];
    if (!overhead.is_number())
      throw InputError(run_name(run.spec) + ": extra.recording.overhead_fraction", overhead.dump().substr(0, 40),
                       "a number");
    facts.recording_overhead_fraction = overhead.get<double>();
  }
  std::int64_t skipped = -1;
  read_fact(run, "skipped_steps", skipped);
  if (skipped >= 0) facts.skipped_steps = skipped;
  return facts;
}

std::string other_card_text(const nlohmann::json& measured, const nlohmann::json& profile) {
  const auto host = [](const nlohmann::json& environment) {
    const std::string card = environment.value("card", std::string("unknown"));
    return environment.value("device", std::string("cuda")) == "cpu" ? card + " (CPU)" : card;
  };
  if (!measured.is_object() || host(measured) == host(profile)) return "";
  return "measured on " + host(measured) + ", predicted from " + host(profile);
}

bool is_on_cpu(const RunResult& run) {
  return word_of_host(run, "device") == "cpu";
}

std::string card_of(const RunResult& run) {
  return word_of_host(run, "card");
}

std::optional<double> unusual_recording(const RunResult& run) {
  const auto overhead = measured_facts(run).recording_overhead_fraction;
  return overhead && std::abs(*overhead) > kRecordingTolerance ? overhead : std::nullopt;
}

std::vector<double> losses_of_training(const MeasuredFacts& facts) {
  std::vector<double> losses;
  for (std::size_t i = 0; i < facts.losses.size(); ++i) {
    const bool skipped =
        std::find(facts.skipped.begin(), facts.skipped.end(), static_cast<std::int64_t>(i)) != facts.skipped.end();
    if (!skipped) losses.push_back(facts.losses[i]);
  }
  return losses;
}

}  // namespace pdl
