#include "runtime/tool/pytorch_run.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/device/devices.hpp"
#include "runtime/measure/environment.hpp"
#include "runtime/measure/measure.hpp"
#include "runtime/measure/run_record.hpp"
#include "runtime/pytorch/interpreter.hpp"
#include "sim/io/error.hpp"
#include "sim/plan/backward_parts.hpp"
#include "sim/plan/pytorch_pipeline_step.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/run/span_kinds.hpp"
#include "sim/spec/schedule_csv.hpp"

namespace pdl {
namespace {

nlohmann::ordered_json buckets_json(const std::vector<GradientBucket>& buckets) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const GradientBucket& bucket : buckets) json.push_back(bucket.tensors);
  return json;
}

nlohmann::ordered_json stage_json(const Plan& plan, const Stage& stage) {
  const auto layer = [&](std::int32_t index) { return plan.spec.model.layers[static_cast<std::size_t>(index)]; };
  const std::int32_t end = stage.first_layer + stage.layer_count;
  const std::vector<std::int64_t> number_bytes = activation_number_bytes(plan.spec.model, plan.spec.dtype);
  return {{"worker", only_worker(stage)},
          {"first_layer", stage.first_layer},
          {"layer_count", stage.layer_count},
          {"in", input_numbers(layer(stage.first_layer))},
          {"out", output_numbers(layer(end - 1))},
          {"in_number_bytes", number_bytes[static_cast<std::size_t>(stage.first_layer)]},
          {"out_number_bytes", number_bytes[static_cast<std::size_t>(end)]},
          {"parameters", parameters(plan.spec.model, stage.first_layer, stage.layer_count)},
          {"buckets", buckets_json(buckets_of_stage(plan, stage))}};
}

const char* name_of(Program program) {
  switch (program) {
    case Program::pytorch_pipeline: return "pipeline";
    case Program::one_thread: return "one_thread";
    case Program::ddp: return "ddp";
    case Program::data_parallel: return "data_parallel";
    case Program::pipeline: break;
  }
  throw std::logic_error("a pipeline of pdl-run in Python");
}

void check_pipeline(const Plan& plan, bool cuda) {
  const RunSpec& spec = plan.spec;
  if (spec.gpus > 1 && (spec.transport == Transport::nccl) != cuda)
    throw InputError("--transport", to_string(spec.transport) + (cuda ? " on GPUs" : " on CPU"),
                     cuda ? "nccl" : "gloo");
  const std::vector<Stage>& stages = plan.stages;
  for (const Stage& stage : stages) {
    if (parameters(spec.model, stage.first_layer, stage.layer_count) > 0) continue;
    const std::int32_t last = stage.first_layer + stage.layer_count - 1;
    throw InputError("--model",
                     "a stage of layers " + std::to_string(stage.first_layer) + " to " + std::to_string(last) +
                         " without parameters and program pytorch",
                     "parameters in each stage: torch.optim takes no empty list");
  }
  for (std::size_t s = 0; !cuda && s + 1 < stages.size(); ++s) {
    if (spec.gpus == 1 || only_worker(stages[s]) != only_worker(stages[s + 1])) continue;
    throw InputError("--schedule", spec.schedule + " with program pytorch on CPU",
                     "one without a V: PyTorch opens its connections by a message to itself, which Gloo refuses");
  }
}

/// Throws InputError: a plan that PyTorch's program here has not, or that this host cannot run.
void check_pytorch_run(const Plan& plan, const RuntimeOptions& options) {
  const RunSpec& spec = plan.spec;
  const bool cuda = options.device == DeviceKind::cuda;
  if (spec.synthetic) throw InputError("--tf", "synthetic costs", "none: a measured run takes the time it takes");
  if (plan.parallel.program == Program::pipeline)
    throw InputError("--workers", to_string(spec.workers) + " with program pytorch on one GPU", "one");
  if (!cuda && spec.dtype == Dtype::tf32) throw InputError("--dtype", "tf32 on CPU", "fp32: TF32 is a format of GPUs");
  if (plan.parallel.program == Program::pytorch_pipeline) check_pipeline(plan, cuda);
  if (plan.parallel.program == Program::data_parallel && !cuda)
    throw InputError("--strategy", "dp with program pytorch on CPU", "GPUs: PyTorch's DataParallel has none there");
  check_devices(spec, options);
}

/// By micro-batch of a round, by replica.
nlohmann::ordered_json replica_rows_json(const Plan& plan) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::int32_t m = 0; m < microbatches_of_a_round(plan); ++m) {
    rows.push_back(nlohmann::ordered_json::array());
    for (std::size_t r = 0; r < plan.replica_rows.size(); ++r)
      rows.back().push_back(plan.replica_rows[r] == 0 ? 0 : rows_of(plan, static_cast<std::int32_t>(r), m));
  }
  return rows;
}

/// What the Python program reads: settings, stages, layers, and every task in the order of the plan.
nlohmann::ordered_json pytorch_plan(const Plan& plan, const RuntimeOptions& options) {
  const RunSpec& spec = plan.spec;
  const bool pipeline = plan.parallel.program == Program::pytorch_pipeline;
  const Schedule* schedule = pipeline ? named_schedule(spec) : nullptr;
  const bool of_processes = pipeline || plan.parallel.program == Program::ddp;
  nlohmann::ordered_json json = {{"program", name_of(plan.parallel.program)},
                                 {"device", options.device == DeviceKind::cuda ? "cuda" : "cpu"},
                                 {"processes", of_processes ? plan.graph.workers : 1},
                                 {"batch", spec.batch},
                                 {"replica_rows", replica_rows_json(plan)},
                                 {"first_bucket_bytes", spec.first_bucket_bytes},
                                 {"bucket_bytes", spec.bucket_bytes},
                                 {"bucket_views", spec.bucket_views},
                                 {"loss_scale", spec.loss_scale},
                                 {"scale_grads", spec.scale_grads},
                                 {"pytorch_class", schedule ? std::string(schedule->pytorch_class) : ""},
                                 {"schedule_csv", pipeline && !schedule ? to_csv(*spec.schedule_file) : ""},
                                 {"microbatch_rows", plan.microbatch_rows},
                                 {"accum", spec.accum},
                                 {"dtype", to_string(spec.dtype)},
                                 {"optimizer", to_string(spec.optimizer)},
                                 {"loss", spec.model.loss == Loss::mse ? "mse" : "cross_entropy"},
                                 {"tokens", sequence_tokens(spec.model)},
                                 {"learning_rate", options.learning_rate},
                                 {"seed", options.seed},
                                 {"warmup", options.warmup},
                                 {"steps", options.steps},
                                 {"recorded_steps", options.recorded_steps},
                                 {"wait_limit_s", options.wait_limit_s}};
  const std::vector<bool> run_again = layers_run_again(plan);
  for (std::size_t l = 0; l < spec.model.layers.size(); ++l) {
    json["layers"].push_back(to_json(spec.model.layers[l]));
    if (run_again[l]) json["layers"].back()["checkpointed"] = true;
  }
  json["buckets"] = buckets_json(plan.buckets);
  for (const Stage& stage : plan.stages) json["stages"].push_back(stage_json(plan, stage));
  for (const Task& task : plan.graph.tasks) {
    json["tasks"].push_back({{"worker", task.worker},
                             {"kind", kSpanKinds[static_cast<std::size_t>(task.kind)]},
                             {"stage", task.stage},
                             {"microbatch", task.microbatch},
                             {"part", std::uint32_t{task.part}},
                             {"sleep_ns", plan.graph.works[task.work].sleep_ns}});
  }
  return json;
}

}  // namespace

RunResult run_pytorch(const Plan& plan, const RuntimeOptions& options, PythonProgram& python,
                      const std::string& command) {
  check_pytorch_run(plan, options);
  const int all = options.warmup + options.steps;
  int done = 0;
  ProgressBar bar;
  bar.show("PyTorch starts");
  const nlohmann::json said = python.ask(pytorch_plan(plan, options), [&](const std::string& line) {
    if (!line.starts_with("step ")) return;
    ++done;
    bar.show(static_cast<double>(done) / all, "step " + std::to_string(done) + " of " + std::to_string(all));
  });
  RunRecord measured = record_from(said["record"]);
  measured.skipped = said["record"]["skipped"].get<std::vector<std::int64_t>>();
  nlohmann::json environment = describe_environment(options, static_cast<int>(plan.graph.workers), command);
  environment.update(said["environment"]);
  RunResult run = run_of_record(plan, measured, std::move(environment));
  const nlohmann::json& of_warmup = said["record"]["memory_of_warmup"];
  if (!of_warmup.empty()) run.extra["warmup_peak_memory_bytes"] = of_warmup;
  return run;
}

}  // namespace pdl
