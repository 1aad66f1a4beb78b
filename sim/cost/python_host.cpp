#include "sim/cost/python_host.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace pdl {
namespace {

class Reader {
 public:
  Reader(const Plan& plan, HostTimes& host) : plan_(plan), host_(host) {
    for (const Layer& layer : plan.spec.model.layers) {
      if (layer.kind->inner) blocks_.insert(layer.kind);
    }
  }

  PythonHost pipeline() {
    PythonHost python;
    python.forward = call("forward");
    python.backward = call("backward");
    python.backward_input = call("backward_input");
    python.backward_weight = call("backward_weight");
    // Of blocks scripts of one process were measured alone; each half of a backward is taken as long as a whole one.
    python.forward.of_blocks_ns = call("plain_forward").of_blocks_ns;
    for (PythonCall* backward : {&python.backward, &python.backward_input, &python.backward_weight})
      backward->of_blocks_ns = call("plain_backward").of_blocks_ns;
    if (is_amp(plan_.spec.dtype)) add_autocast(python);
    const double action_ns = of("action");
    for (PythonCall* call : {&python.forward, &python.backward, &python.backward_input, &python.backward_weight})
      call->call_ns += action_ns;
    python.message_ns = of("message") + action_ns;
    python.loss_ns = of("loss");
    python.step_ns = of("step");
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
    PythonCall call{of(name + end), of(name + end + "_layer")};
    for (const LayerKind* kind : blocks_) {
      const double ns = of(name + end + "_" + std::string(kind->name));
      if (ns > 0) call.of_blocks_ns[kind] = ns;
    }
    return call;
  }
  double of(const std::string& name) { return host_.of("python_" + name, {}, false); }

 private:
  /// What autocast takes is measured of scripts of one process, forward and whole backward.
  void add_autocast(PythonHost& python) {
    const PythonCall forward = more("plain_forward_amp", "plain_forward");
    const PythonCall backward = more("plain_backward_amp", "plain_backward");
    for (auto [of_pipeline, by_autocast] : {std::pair{&python.forward, forward}, std::pair{&python.backward, backward},
                                            std::pair{&python.backward_input, backward}}) {
      of_pipeline->call_ns += by_autocast.call_ns;
      of_pipeline->layer_ns += by_autocast.layer_ns;
      for (auto& [kind, ns] : of_pipeline->of_blocks_ns) ns += by_autocast.of_blocks_ns.at(kind);
    }
  }
  PythonCall more(const std::string& name, const std::string& than) {
    const PythonCall with = call(name), without = call(than);
    PythonCall more{std::max(0.0, with.call_ns - without.call_ns), std::max(0.0, with.layer_ns - without.layer_ns)};
    for (const auto& [kind, ns] : without.of_blocks_ns) {
      const auto found = with.of_blocks_ns.find(kind);
      more.of_blocks_ns[kind] = found == with.of_blocks_ns.end() ? 0 : std::max(0.0, found->second - ns);
    }
    return more;
  }
  void replicate_by_ddp(PythonHost& python) {
    python.forward.call_ns += of("ddp_forward");
    python.hook_ns = of("ddp_hook");
    python.all_reduce_ns = of("ddp_all_reduce");
  }

  /// The replicas' threads hold Python's lock in turn: together they take as long as one after another.
  void replicate(PythonHost& python) {
    const auto replicas = static_cast<double>(plan_.parallel.mesh.dp);
    const auto layers = static_cast<double>(plan_.spec.model.layers.size());
    const PythonCall whole = call("data_parallel"), forward = call("plain_forward");  // in fp32; whole: of a GPU
    const auto in_all = [&](const PythonCall& of) { return replicas * (of.call_ns + layers * of.layer_ns); };
    python.replicate_ns = std::max(0.0, in_all(whole) - in_all(forward));
    python.forward.call_ns *= replicas;
    python.forward.layer_ns *= replicas;
    for (auto& [kind, ns] : python.forward.of_blocks_ns) ns *= replicas;
  }

  const Plan& plan_;
  HostTimes& host_;
  std::set<const LayerKind*> blocks_;  // that the model has
};

}  // namespace

PythonHost slower(PythonHost python, double factor) {
  for (PythonCall* call :
       {&python.forward, &python.backward, &python.backward_input, &python.backward_weight, &python.optimizer}) {
    call->call_ns *= factor;
    call->layer_ns *= factor;
    for (auto& [kind, ns] : call->of_blocks_ns) ns *= factor;
  }
  for (double* ns : {&python.zero_grad_ns, &python.scaler_ns, &python.loss_ns, &python.step_ns, &python.message_ns,
                     &python.hook_ns, &python.all_reduce_ns, &python.replicate_ns})
    *ns *= factor;
  return python;
}

PythonHost python_host(const Plan& plan, HostTimes& host) {
  Reader reader(plan, host);
  PythonHost python = plan.parallel.program == Program::pytorch_pipeline ? reader.pipeline() : reader.plain();
  python.known = python.forward.layer_ns > 0 && python.backward.layer_ns > 0;
  python.optimizer = reader.call(plan.spec.optimizer != Optimizer::sgd ? "optimizer_adam" : "optimizer");
  const PythonCall zero_grad = reader.call("zero_grad");
  const double processes = static_cast<double>(plan.parallel.mesh.pp);
  const double split = plan.parallel.program == Program::pytorch_pipeline ? processes : 1;
  // A layer of the probe has two tensors.
  const auto layers = static_cast<std::int64_t>(plan.spec.model.layers.size());
  const double tensors = static_cast<double>(parameter_tensor_count(plan.spec.model, 0, layers));
  python.zero_grad_ns = zero_grad.call_ns + zero_grad.layer_ns * tensors / 2 / split;
  python.scaler_ns = reader.of("scaler");
  return python;
}

}  // namespace pdl
