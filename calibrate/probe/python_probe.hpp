// The host times of a Python program: what its thread takes to issue the parts of a step, by the user's own
// interpreter and PyTorch (runtime/pytorch/host_times.py). Measured where pdl-calibrate is given --python.
//
//   probe host, names python_forward, python_forward_layer, ..., python_message, python_action, ...
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "calibrate/probe/probe_part.hpp"
#include "runtime/device/runtime_options.hpp"

namespace pdl {

struct ProbeOptions;

/// Versions of Python and of its PyTorch. Throws as PythonProgram::ask() (runtime/pytorch/interpreter.hpp).
nlohmann::json python_versions(const std::string& python, const RuntimeOptions& runtime);

/// Throws as PythonProgram::ask(); on one worker of a CPU there is nothing to measure.
void probe_python(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                  const Progress& progress);

}  // namespace pdl
