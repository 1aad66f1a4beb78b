#include "sim/plan/step_order.hpp"

#include <numeric>

#include "sim/io/error.hpp"
#include "sim/plan/samples.hpp"

namespace pdl {
namespace {

std::string samples_of(const std::vector<std::int64_t>& rows) {
  return std::to_string(std::accumulate(rows.begin(), rows.end(), std::int64_t{0})) + " samples";
}

/// torch.chunk may make fewer micro-batches than asked for: a schedule must take what there is.
const PipelineOrder& checked_file(const RunSpec& spec, const std::vector<std::int64_t>& rows) {
  const PipelineOrder& order = spec.schedule_file->order;
  if (static_cast<std::size_t>(order.shape.microbatches) == rows.size()) return order;
  throw InputError("batch",
                   samples_of(rows) + ", which torch.chunk makes " + std::to_string(rows.size()) + " micro-batches of",
                   std::to_string(order.shape.microbatches) + ", as in the schedule " + spec.schedule);
}

const Schedule& checked_schedule(const RunSpec& spec, const ScheduleShape& shape,
                                 const std::vector<std::int64_t>& rows) {
  const Schedule* schedule = find_schedule(spec.schedule);
  if (!schedule)
    throw InputError("--schedule", spec.schedule + ", which is searched for by pdl-sim",
                     "a schedule that is known before the search: export it with pdl-sim --schedule-csv FILE.csv");
  if (const auto refusal = schedule->refusal(shape))
    throw InputError("batch", samples_of(rows) + " make " + refusal->found, refusal->expected);
  return *schedule;
}

ScheduleShape shape_of(const RunSpec& spec, const Mesh& mesh, const std::vector<std::int64_t>& rows) {
  return {static_cast<std::int32_t>(mesh.pp), static_cast<std::int32_t>(spec.chunks),
          static_cast<std::int32_t>(std::ssize(rows))};
}

}  // namespace

PipelineOrder make_order(const RunSpec& spec) {
  const std::vector<std::int64_t> rows = microbatch_rows(spec);
  if (spec.schedule_file) return checked_file(spec, rows);
  const ScheduleShape shape = shape_of(spec, resolve(spec).mesh, rows);
  return make_order(checked_schedule(spec, shape, rows), shape);
}

StepOrder::StepOrder(const RunSpec& spec, const Mesh& mesh, const std::vector<std::int64_t>& rows)
    : shape_(shape_of(spec, mesh, rows)),
      replicas_(static_cast<std::int32_t>(mesh.dp)),
      rounds_(static_cast<std::int32_t>(spec.accum)) {
  if (spec.schedule_file) {
    file_ = &checked_file(spec, rows);
    shape_ = file_->shape;
  } else {
    schedule_ = &checked_schedule(spec, shape_, rows);
  }
}

std::vector<Operation> StepOrder::of_worker(std::int32_t worker) const {
  const std::int32_t of_replica = worker % shape_.workers, replica = worker / shape_.workers;
  std::vector<Operation> operations =
      file_ ? file_->workers[static_cast<std::size_t>(of_replica)] : schedule_->order(shape_, of_replica);
  for (Operation& operation : operations) operation.stage += replica * shape_.stages();
  const std::size_t of_round = operations.size();
  operations.reserve(of_round * static_cast<std::size_t>(rounds_));
  for (std::int32_t round = 1; round < rounds_; ++round) {
    for (std::size_t i = 0; i < of_round; ++i) {
      operations.push_back(operations[i]);
      operations.back().microbatch += round * shape_.microbatches;
    }
  }
  return operations;
}

}  // namespace pdl
