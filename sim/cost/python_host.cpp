#include "sim/cost/python_host.hpp"

namespace pdl {

PythonHost python_host(HostTimes& host) {
  const auto of = [&](const std::string& name) { return host.of("python_" + name, {}, false); };
  const auto call = [&](const std::string& name) { return PythonCall{of(name), of(name + "_layer")}; };
  PythonHost python;
  python.forward = call("forward");
  python.backward = call("backward");
  python.backward_input = call("backward_input");
  python.backward_weight = call("backward_weight");
  python.message_ns = of("message");
  python.step_ns = of("step");
  python.known = python.forward.layer_ns > 0 && python.backward.layer_ns > 0;
  return python;
}

}  // namespace pdl
