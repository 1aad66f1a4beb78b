// Host times of Python, by the PyTorch that this program was built with.
#include "calibrate/probe/python_probe.hpp"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "calibrate/probe/probe.hpp"
#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

/// Of the wheel, for the scope.
class PythonPath {
 public:
  PythonPath() : before_(std::getenv("PYTHONPATH") ? std::getenv("PYTHONPATH") : "") {
    setenv("PYTHONPATH", (std::string(PDL_PYTHON_PATH) + ":" + before_).c_str(), 1);
  }
  ~PythonPath() { setenv("PYTHONPATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

RuntimeOptions on_cpu() {
  RuntimeOptions runtime;
  runtime.device = DeviceKind::cpu;
  return runtime;
}

std::map<std::string, Sample> probed(const ProbeOptions& options) {
  std::map<std::string, Sample> samples;
  const Collect collect{[&](Sample sample) { samples.emplace(sample.key.name, sample); }, [](const ProductSamples&) {}};
  probe_python(options, on_cpu(), collect, [](double fraction, const std::string&) { CHECK(fraction <= 1); });
  return samples;
}

}  // namespace

TEST_CASE("host times of Python: calls of a pipeline's stages, their layers, messages, a step", "[calibrate]") {
  const PythonPath path;
  ProbeOptions options;
  options.device = "cpu";
  options.python = "python3";
  options.gpus = 2;
  std::map<std::string, Sample> samples;
  try {
    samples = probed(options);
  } catch (const InputError& error) {
    if (std::string(error.what()).find("has no PyTorch") == std::string::npos) throw;
    WARN("test skipped: " + std::string(error.what()));
    return;
  }
  std::vector<std::string> names;
  for (const auto& [name, sample] : samples) {
    names.push_back(name);
    CHECK(sample.values.size() > 20);
    for (const double ns : sample.values) CHECK(ns > 0);
  }
  CHECK(names == std::vector<std::string>{"python_backward", "python_backward_input", "python_backward_input_layer",
                                          "python_backward_layer", "python_backward_weight",
                                          "python_backward_weight_layer", "python_forward", "python_forward_layer",
                                          "python_message", "python_step"});
  CHECK(python_versions("python3", on_cpu()).contains("torch"));
  options.gpus = 1;  // Gloo sends nothing to itself
  CHECK(probed(options).empty());
}

TEST_CASE("an interpreter that is not there is refused by name", "[calibrate]") {
  CHECK_THROWS_WITH(python_versions("/no/such/python", on_cpu()),
                    ContainsSubstring("--python: found /no/such/python, which cannot be started"));
}
