#include "calibrate/probe/python_probe.hpp"

#include "calibrate/probe/probe.hpp"
#include "runtime/pytorch/interpreter.hpp"
#include "sim/io/json_place.hpp"

namespace pdl {
namespace {

constexpr const char* kScript = "host_times.py";
constexpr const char* kMeasured = "measured ";  // begins the lines that it writes on its way, beside what libraries say
constexpr int kLines = 5;
constexpr double kWaitLimit_s = 120;

nlohmann::ordered_json asked(std::int64_t workers, const RuntimeOptions& runtime, bool versions_only) {
  return {{"device", runtime.device == DeviceKind::cuda ? "cuda" : "cpu"},
          {"workers", workers},
          {"wait_limit_s", kWaitLimit_s},
          {"versions_only", versions_only}};
}

}  // namespace

nlohmann::json python_versions(const std::string& python, const RuntimeOptions& runtime) {
  PythonProgram program(python, kScript);
  return program.ask(asked(1, runtime, /*versions_only=*/true), [](const std::string&) {})["environment"];
}

void probe_python(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                  const Progress& progress) {
  int lines = 0;
  PythonProgram program(options.python, kScript);
  const nlohmann::json answer =
      program.ask(asked(options.gpus, runtime, /*versions_only=*/false), [&](const std::string& line) {
        if (!line.starts_with(kMeasured)) return;
        progress(static_cast<double>(++lines) / kLines, "host of Python: " + line);
      });
  for (const nlohmann::json& sample : answer["samples"]) collect(sample_from_json(JsonPlace(sample, kScript)));
}

}  // namespace pdl
