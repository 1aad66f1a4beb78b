// Host times of Python, by the PyTorch that this program was built with.
#include "calibrate/probe/python_probe.hpp"

#include <algorithm>
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

TEST_CASE("host times of Python: calls, their layers, messages, actions, and what DDP adds", "[calibrate]") {
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
  std::vector<std::string> expected = {
      "python_action", "python_ddp_all_reduce", "python_ddp_forward", "python_ddp_hook",
      "python_loss",   "python_message",        "python_scaler",      "python_step"};
  for (const std::string call :
       {"forward", "backward", "backward_input", "backward_weight", "plain_forward", "plain_backward",
        "plain_forward_amp", "plain_backward_amp", "optimizer", "optimizer_adam", "zero_grad"}) {
    expected.push_back("python_" + call);
    expected.push_back("python_" + call + "_layer");
  }
  for (const std::string call : {"plain_forward", "plain_backward", "plain_forward_amp", "plain_backward_amp"}) {
    for (const std::string block : {"gpt_block", "llama_block"}) expected.push_back("python_" + call + "_" + block);
  }
  std::sort(expected.begin(), expected.end());
  CHECK(names == expected);  // python_data_parallel needs GPUs
  CHECK(python_versions("python3", on_cpu()).contains("torch"));
  options.gpus = 1;  // Gloo sends nothing to itself: only scripts of one process
  const std::map<std::string, Sample> alone = probed(options);
  CHECK(alone.contains("python_plain_forward"));
  CHECK_FALSE(alone.contains("python_forward"));
}

TEST_CASE("an interpreter that is not there is refused by name", "[calibrate]") {
  CHECK_THROWS_WITH(python_versions("/no/such/python", on_cpu()),
                    ContainsSubstring("--python: found /no/such/python, which cannot be started"));
}
