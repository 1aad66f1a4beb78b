#include "runtime/tool/pytorch_run.hpp"

#include <nlohmann/json.hpp>

#include "runtime/device/devices.hpp"
#include "runtime/measure/environment.hpp"
#include "runtime/measure/measure.hpp"
#include "runtime/measure/run_record.hpp"
#include "runtime/pytorch/interpreter.hpp"
#include "sim/io/error.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/run/span_kinds.hpp"
#include "sim/spec/schedule_csv.hpp"

namespace pdl {
namespace {

nlohmann::ordered_json layer_json(const Layer& layer) {
  nlohmann::ordered_json json = {{"kind", layer.kind->name}};
  for (const LayerSize& size : layer.kind->sizes)
    json[std::string(size.name)] = size.name == "in" ? input_numbers(layer) : output_numbers(layer);
  return json;
}

nlohmann::ordered_json stage_json(const Plan& plan, const Stage& stage) {
  const auto layer = [&](std::int32_t index) { return plan.spec.model.layers[static_cast<std::size_t>(index)]; };
  return {{"worker", only_worker(stage)},
          {"first_layer", stage.first_layer},
          {"layer_count", stage.layer_count},
          {"in", input_numbers(layer(stage.first_layer))},
          {"out", output_numbers(layer(stage.first_layer + stage.layer_count - 1))},
          {"parameters", parameters(plan.spec.model, stage.first_layer, stage.layer_count)}};
}

/// Throws InputError: a plan that PyTorch's program here has not, or that this host cannot run.
void check_pytorch_run(const Plan& plan, const RuntimeOptions& options) {
  const RunSpec& spec = plan.spec;
  if (spec.synthetic) throw InputError("--tf", "synthetic costs", "none: a measured run takes the time it takes");
  if (plan.parallel.program != Program::pytorch_pipeline) {
    throw InputError(
        "--program", "pytorch with strategy " + to_string(spec.strategy),
        "a pipeline with a process a GPU: of the others pdl-run has its own program alone (--program pdl)");
  }
  if (spec.delay_ms > 0 || spec.straggler)
    throw InputError("--program", "pytorch with hosts that sleep", "no --delay-ms, no --straggler");
  const bool cuda = options.device == DeviceKind::cuda;
  if (spec.gpus > 1 && (spec.transport == Transport::nccl) != cuda)
    throw InputError("--transport", to_string(spec.transport) + (cuda ? " on GPUs" : " on CPU"),
                     cuda ? "nccl" : "gloo");
  const Schedule* schedule = named_schedule(spec);
  if (!cuda && spec.gpus > 1 && schedule && schedule->placement == Placement::v) {
    throw InputError("--schedule", spec.schedule + " with program pytorch on CPU",
                     "one without a V: PyTorch opens its connections by a message to itself, which Gloo refuses");
  }
  check_devices(spec, options);
}

/// What the Python program reads: settings, stages, layers, and every task in the order of the plan.
nlohmann::ordered_json pytorch_plan(const Plan& plan, const RuntimeOptions& options) {
  const RunSpec& spec = plan.spec;
  const Schedule* schedule = named_schedule(spec);
  nlohmann::ordered_json json = {{"device", options.device == DeviceKind::cuda ? "cuda" : "cpu"},
                                 {"workers", plan.graph.workers},
                                 {"pytorch_class", schedule ? std::string(schedule->pytorch_class) : ""},
                                 {"schedule_csv", schedule ? "" : to_csv(*spec.schedule_file)},
                                 {"microbatch_rows", plan.microbatch_rows},
                                 {"accum", spec.accum},
                                 {"dtype", to_string(spec.dtype)},
                                 {"optimizer", to_string(spec.optimizer)},
                                 {"learning_rate", options.learning_rate},
                                 {"seed", options.seed},
                                 {"warmup", options.warmup},
                                 {"steps", options.steps},
                                 {"recorded_steps", options.recorded_steps},
                                 {"wait_limit_s", options.wait_limit_s}};
  for (const Layer& layer : spec.model.layers) json["layers"].push_back(layer_json(layer));
  for (const Stage& stage : plan.stages) json["stages"].push_back(stage_json(plan, stage));
  for (const Task& task : plan.graph.tasks) {
    json["tasks"].push_back({{"worker", task.worker},
                             {"kind", kSpanKinds[static_cast<std::size_t>(task.kind)]},
                             {"stage", task.stage},
                             {"microbatch", task.microbatch}});
  }
  return json;
}

}  // namespace

RunResult run_pytorch(const Plan& plan, const RuntimeOptions& options, const std::string& python,
                      const std::string& command) {
  check_pytorch_run(plan, options);
  const int all = options.warmup + options.steps;
  int done = 0;
  ProgressBar bar;
  bar.show("PyTorch starts");
  const nlohmann::json said = run_python(python, "train.py", pytorch_plan(plan, options), [&](const std::string& line) {
    if (!line.starts_with("step ")) return;
    ++done;
    bar.show(static_cast<double>(done) / all, "step " + std::to_string(done) + " of " + std::to_string(all));
  });
  const RunRecord measured = record_from(said["record"]);
  nlohmann::json environment = describe_environment(options, static_cast<int>(plan.graph.workers), command);
  environment.update(said["environment"]);
  return run_of_record(plan, measured, std::move(environment));
}

}  // namespace pdl
