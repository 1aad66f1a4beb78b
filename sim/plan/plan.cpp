#include "sim/plan/plan.hpp"

#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/plan/begin_plan.hpp"
#include "sim/plan/buffers.hpp"
#include "sim/plan/data_parallel_step.hpp"
#include "sim/plan/ddp_step.hpp"
#include "sim/plan/one_thread_step.hpp"
#include "sim/plan/pipeline_step.hpp"
#include "sim/plan/pytorch_pipeline_step.hpp"
#include "sim/spec/presets.hpp"

namespace pdl {
namespace {

/// Whose tasks are planned.
enum class Replicas : std::uint8_t { first, all };

void say_untied_head(Plan& plan) {
  if (!plan.spec.head_untied) return;
  plan.warnings.push_back(
      "the head has a weight of its own, " + std::to_string(head_weight_numbers(plan.spec.model)) +
      " parameters that a model on one stage shares with the embedding: torch.distributed.pipelining shares none "
      "between stages");
}

void plan_stages(Plan& plan, Replicas replicas) {
  const StepOrder order = order_of(plan);
  say_untied_head(plan);
  plan.stages = make_stages(plan.spec, plan.parallel.mesh, order.placement());
  say_warnings_of_schedule(plan);
  const bool all = replicas == Replicas::all;
  if (all) assign_buffers(plan, order);
  switch (plan.parallel.program) {
    case Program::one_thread: plan.graph = one_thread_step(plan, order); break;
    case Program::pytorch_pipeline: plan.graph = pytorch_pipeline_step(plan, order); break;
    default:
      plan.graph = pipeline_step(plan, order,
                                 static_cast<std::int32_t>(plan.parallel.mesh.pp * (all ? plan.parallel.mesh.dp : 1)));
  }
}

/// Before anything is made of that size.
void check_size(const Plan& plan, std::size_t parts, std::int32_t replicas) {
  constexpr double kMostTasks = 6e7;
  const double tasks = 3.0 * static_cast<double>(parts + 1) * static_cast<double>(plan.microbatch_rows.size()) *
                       static_cast<double>(replicas);
  if (tasks <= kMostTasks) return;
  throw InputError("gpus, depth, accum and microbatches", "a step of about " + to_text(tasks) + " tasks",
                   "at most " + to_text(kMostTasks) + ", with fewer of them or with larger buckets");
}

/// PyTorch 2.11, Reducer::rebuild_buckets after the first backward; ProcessGroupNCCL's watchdog keeps the tensors of an
/// all-reduce until it looks again, each 0.1 s. Seen on 2 x H200: steps of 5 ms had a third copy of the gradients.
void say_old_buckets(Plan& plan) {
  const bool by_nccl = plan.spec.gpus > 1 && plan.spec.transport == Transport::nccl;
  if (plan.spec.program != ProgramOf::pytorch || !by_nccl) return;
  std::int64_t bytes = 0;
  for (const GradientBucket& bucket : plan.buckets) bytes += bucket.bytes;
  plan.warnings.push_back(
      "in its second step DistributedDataParallel makes its buckets anew while NCCL still holds the old ones, for up "
      "to "
      "0.1 s: " +
      binary_bytes(bytes) + " more on each GPU in the first steps than the peak that is said");
}

void plan_whole_models(Plan& plan, Replicas which) {
  const RunSpec& spec = plan.spec;
  const auto replicas = which == Replicas::first ? 1 : static_cast<std::int32_t>(plan.replica_rows.size());
  plan.stages = make_stages(spec, plan.parallel.mesh, Placement::loop);
  for (std::size_t r = 0; r < plan.replica_rows.size(); ++r) {
    // The first micro-batch is the largest.
    plan.live[r] = live_of_whole_model(spec, rows_of(plan, static_cast<std::int32_t>(r), 0));
    if (plan.replica_rows[r] == 0)
      plan.warnings.push_back("GPU " + std::to_string(r) + " has nothing to do: " + std::to_string(spec.batch) +
                              " samples make fewer slices than GPUs");
  }
  if (plan.parallel.program == Program::ddp) {
    // pdl-run gives its Reducer the buckets of the usual order, whatever order gradients come in.
    const bool weight_first = spec.program == ProgramOf::pytorch && is_amp(spec.dtype);
    plan.buckets = gradient_buckets(spec.model, spec.first_bucket_bytes, spec.bucket_bytes,
                                    weight_first ? GradientOrder::weight_first : GradientOrder::bias_first);
    check_size(plan, plan.buckets.size(), replicas);
    say_old_buckets(plan);
    plan.graph = ddp_step(plan, replicas);
  } else {
    plan.parameter_chunks = parameter_chunks(spec.model);
    plan.gradient_chunks = reduce_chunks(spec.model);
    check_size(plan, plan.parameter_chunks.size() + plan.gradient_chunks.size(), replicas);
    plan.graph = data_parallel_step(plan, replicas);
  }
  if (plan.replica_rows.front() != plan.replica_rows.back() && plan.replica_rows.back() > 0) {
    plan.warnings.push_back("GPUs have unequal parts of the batch: " + std::to_string(plan.replica_rows.front()) +
                            " samples, the last one " + std::to_string(plan.replica_rows.back()));
  }
}

/// What begin_plan() has begun.
Plan planned(Plan plan, Replicas replicas) {
  plan.warnings.insert(plan.warnings.end(), plan.spec.model_warnings.begin(), plan.spec.model_warnings.end());
  is_data_parallel(plan.parallel.program) ? plan_whole_models(plan, replicas) : plan_stages(plan, replicas);
  return plan;
}

}  // namespace

std::int32_t microbatches_of_a_round(const Plan& plan) {
  return static_cast<std::int32_t>(std::ssize(plan.microbatch_rows) / plan.spec.accum);
}

std::int64_t rows_of(const Plan& plan, std::int32_t replica, std::int32_t microbatch) {
  if (microbatches_of_a_round(plan) == 1) return plan.replica_rows[static_cast<std::size_t>(replica)];
  return plan.microbatch_rows[static_cast<std::size_t>(microbatch)];
}

Plan begin_plan(RunSpec asked) {
  Plan plan;
  plan.spec = std::move(asked);
  const RunSpec& spec = plan.spec;
  plan.parallel = resolve(spec);
  plan.replica_rows = replica_rows(spec, plan.parallel);
  const std::vector<std::int64_t> rows = cut_into_microbatches(spec, plan.replica_rows.front(), plan.warnings);
  for (std::int64_t round = 0; round < spec.accum; ++round) {
    plan.microbatch_rows.insert(plan.microbatch_rows.end(), rows.begin(), rows.end());
  }
  plan.live.resize(static_cast<std::size_t>(plan.parallel.mesh.gpus()));
  return plan;
}

StepOrder order_of(const Plan& plan) {
  const auto in_round = plan.microbatch_rows.begin() + microbatches_of_a_round(plan);
  return {plan.spec, plan.parallel.mesh, {plan.microbatch_rows.begin(), in_round}};
}

void say_warnings_of_schedule(Plan& plan) {
  if (!plan.spec.schedule_file) return;
  const std::vector<std::string>& of_file = plan.spec.schedule_file->warnings;
  plan.warnings.insert(plan.warnings.end(), of_file.begin(), of_file.end());
  if (plan.parallel.program != Program::pytorch_pipeline) return;
  const PipelineOrder& order = plan.spec.schedule_file->order;
  for (const char* name : {"1f1b", "gpipe"}) {
    const Schedule& schedule = *find_schedule(name);
    if (order.shape.chunks > 1 || !schedule.takes(order.shape) || make_order(schedule, order.shape) != order) continue;
    plan.warnings.push_back(plan.spec.schedule + " is the order of Schedule" + std::string(schedule.pytorch_class) +
                            ", but PyTorch runs a file by _PipelineScheduleRuntime, whose messages take longer: "
                            "schedule " +
                            name + " is the class itself");
    return;
  }
}

Plan make_plan(const RunSpec& spec) {
  return finish_plan(begin_plan(spec));
}

Plan finish_plan(Plan plan) {
  return planned(std::move(plan), Replicas::all);
}

Plan make_plan_of_first_replica(const RunSpec& spec) {
  return planned(begin_plan(spec), Replicas::first);
}

}  // namespace pdl
