#include "sim/plan/step_order.hpp"

#include <numeric>

#include "sim/io/error.hpp"
#include "sim/plan/samples.hpp"

namespace pdl {
namespace {

/// torch.chunk may make fewer micro-batches than asked for: a schedule with a rule must take what there is.
PipelineOrder order_of_replica(const RunSpec& spec, const Mesh& mesh, const std::vector<std::int64_t>& rows) {
  const std::string samples = std::to_string(std::accumulate(rows.begin(), rows.end(), std::int64_t{0})) + " samples";
  if (spec.schedule_file) {
    const std::int32_t of_file = spec.schedule_file->order.shape.microbatches;
    if (static_cast<std::size_t>(of_file) != rows.size()) {
      throw InputError("batch",
                       samples + ", which torch.chunk makes " + std::to_string(rows.size()) + " micro-batches of",
                       std::to_string(of_file) + ", as in the schedule " + spec.schedule);
    }
    return spec.schedule_file->order;
  }
  const Schedule* schedule = find_schedule(spec.schedule);
  if (!schedule)
    throw InputError("--schedule", spec.schedule + ", which is searched for by pdl-sim",
                     "a schedule that is known before the search: export it with pdl-sim --schedule-csv FILE.csv");
  const ScheduleShape shape{static_cast<std::int32_t>(mesh.pp), static_cast<std::int32_t>(spec.chunks),
                            static_cast<std::int32_t>(std::ssize(rows))};
  if (const auto refusal = schedule->refusal(shape)) {
    throw InputError("batch", samples + " make " + refusal->found, refusal->expected);
  }
  return make_order(*schedule, shape);
}

}  // namespace

PipelineOrder make_order(const RunSpec& spec) {
  return order_of_replica(spec, resolve(spec).mesh, microbatch_rows(spec));
}

PipelineOrder order_of_step(const RunSpec& spec, const Mesh& mesh, const std::vector<std::int64_t>& rows) {
  const PipelineOrder order = order_of_replica(spec, mesh, rows);
  PipelineOrder all = order;
  all.workers.clear();
  for (std::int32_t replica = 0; replica < mesh.dp; ++replica) {
    for (const std::vector<Operation>& of_worker : order.workers) {
      std::vector<Operation>& operations = all.workers.emplace_back();
      for (std::int32_t round = 0; round < spec.accum; ++round) {
        for (Operation operation : of_worker) {
          operation.stage += replica * order.shape.stages();
          operation.microbatch += round * order.shape.microbatches;
          operations.push_back(operation);
        }
      }
    }
  }
  return all;
}

}  // namespace pdl
