#include "sim/predict/other_program.hpp"

#include <algorithm>

#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/spec/mesh.hpp"

namespace pdl {
namespace {

bool knows(const CostProfile& profile, const std::string& host_time) {
  return std::any_of(profile.host.begin(), profile.host.end(),
                     [&](const HostTime& time) { return time.key.name == host_time; });
}

}  // namespace

RunSpec by_program(const RunSpec& spec, ProgramOf program) {
  if (spec.program == program) return spec;
  const bool one_thread = spec.workers == Workers::one && spec.strategy != Strategy::single;
  std::vector<SettingValue> words;
  for (SettingValue& word : to_settings(spec)) {
    const bool of_program = word.name == "program" || (word.name == "workers" && !one_thread) ||
                            word.name == "transport" || word.name == "p2p" || word.name == "overlap-steps" ||
                            word.name == "scale-grads";
    if (!of_program) words.push_back(std::move(word));
  }
  words.push_back({"program", to_string(program), "--program"});
  return parse_run_spec(words, spec.schedule_file);
}

std::optional<OtherProgram> other_program(const RunSpec& spec, const CostProfile* profile,
                                          std::optional<std::int64_t> memory_limit_bytes, std::size_t tasks) {
  constexpr std::size_t kMostTasks = 200'000;
  if (!profile || profile->host_description.device != "cuda") return std::nullopt;
  OtherProgram other;
  other.program = spec.program == ProgramOf::pdl ? ProgramOf::pytorch : ProgramOf::pdl;
  const bool pipeline = spec.strategy == Strategy::pp && spec.workers != Workers::one;
  other.python_is_known = knows(*profile, pipeline ? "python_forward" : "python_plain_forward");
  if (tasks > kMostTasks || (pipeline && (spec.gpus == 1 || spec.schedule == kAutoSchedule))) return std::nullopt;
  if (!pipeline && !other.python_is_known)
    return spec.strategy == Strategy::single && spec.workers != Workers::one ? std::nullopt : std::optional(other);
  const Schedule* schedule = pipeline ? named_schedule(spec) : nullptr;
  if (schedule) other.pytorch_class = std::string(schedule->pytorch_class);
  try {
    const PredictOptions options{.memory_limit_bytes = memory_limit_bytes};
    const RunSpec by_other = by_program(spec, other.program);
    // A pipeline of one stage runs all of it again, where the other program runs single layers: no two of one plan.
    const auto runs_stages = [](const RunSpec& of) { return resolve(of).program == Program::pipeline; };
    if (spec.recompute && runs_stages(spec) != runs_stages(by_other)) return std::nullopt;
    other.step_ms = predict(by_other, profile, options).step_time.median_ms;
  } catch (const InputError&) {
    return std::nullopt;
  } catch (const CannotRun&) {
    return std::nullopt;
  }
  return other;
}

}  // namespace pdl
