#include "sim/cost/python_host.hpp"

#include <algorithm>

namespace pdl {
namespace {

class Reader {
 public:
  Reader(const Plan& plan, HostTimes& host) : plan_(plan), host_(host) {}

  PythonHost pipeline() {
    PythonHost python;
    python.forward = call("forward");
    python.backward = call("backward");
    python.backward_input = call("backward_input");
    python.backward_weight = call("backward_weight");
    const double action_ns = of("action");
    for (PythonCall* call : {&python.forward, &python.backward, &python.backward_input, &python.backward_weight})
      call->call_ns += action_ns;
    python.message_ns = of("message") + action_ns;
    if (plan_.parallel.mesh.dp > 1) replicate_by_ddp(python);
    return python;
  }

  PythonHost plain() {
    const std::string amp = is_amp(plan_.spec.dtype) ? "_amp" : "";
    PythonHost python;
    python.forward = call("plain_forward", amp);
    python.backward = call("plain_backward", amp);
    if (plan_.parallel.program == Program::ddp) replicate_by_ddp(python);
    if (plan_.parallel.program == Program::data_parallel && plan_.parallel.mesh.dp > 1) replicate(python);
    return python;
  }

  PythonCall call(const std::string& name, const std::string& end = "") {
    return {of(name + end), of(name + end + "_layer")};
  }
  double of(const std::string& name) { return host_.of("python_" + name, {}, false); }

 private:
  void replicate_by_ddp(PythonHost& python) {
    python.forward.call_ns += of("ddp_forward");
    python.hook_ns = of("ddp_hook");
    python.all_reduce_ns = of("ddp_all_reduce");
  }

  /// The replicas' threads hold Python's lock in turn: together they take as long as one after another.
  void replicate(PythonHost& python) {
    const auto replicas = static_cast<double>(plan_.parallel.mesh.dp);
    const auto layers = static_cast<double>(plan_.spec.model.layers.size());
    const PythonCall whole = call("data_parallel");  // of a GPU
    const auto in_all = [&](const PythonCall& of) { return replicas * (of.call_ns + layers * of.layer_ns); };
    python.replicate_ns = std::max(0.0, in_all(whole) - in_all(python.forward));
    python.forward = {replicas * python.forward.call_ns, replicas * python.forward.layer_ns};
  }

  const Plan& plan_;
  HostTimes& host_;
};

}  // namespace

PythonHost python_host(const Plan& plan, HostTimes& host) {
  Reader reader(plan, host);
  PythonHost python = plan.parallel.program == Program::pytorch_pipeline ? reader.pipeline() : reader.plain();
  python.known = python.forward.layer_ns > 0 && python.backward.layer_ns > 0;
  python.optimizer = reader.call(plan.spec.optimizer == Optimizer::adam ? "optimizer_adam" : "optimizer");
  const PythonCall zero_grad = reader.call("zero_grad");
  const double processes = static_cast<double>(plan.parallel.mesh.pp);
  const double split = plan.parallel.program == Program::pytorch_pipeline ? processes : 1;
  python.zero_grad_ns =
      zero_grad.call_ns + zero_grad.layer_ns * static_cast<double>(plan.spec.model.layers.size()) / split;
  python.scaler_ns = reader.of("scaler");
  return python;
}

}  // namespace pdl
