#include "sim/plan/samples.hpp"

#include "sim/io/error.hpp"
#include "sim/spec/split.hpp"

namespace pdl {

std::vector<std::int64_t> replica_rows(const RunSpec& spec, const Parallelism& parallel) {
  const std::int64_t replicas = parallel.mesh.dp;
  if (parallel.program != Program::data_parallel) return spread(spec.batch, replicas);
  std::vector<std::int64_t> rows = torch_chunk(spec.batch, replicas);
  rows.resize(static_cast<std::size_t>(replicas), 0);
  return rows;
}

std::vector<std::int64_t> cut_into_microbatches(const RunSpec& spec, std::int64_t samples,
                                                std::vector<std::string>& warnings) {
  if (spec.synthetic && samples >= spec.microbatches) return spread(samples, spec.microbatches);
  if (spec.synthetic) {
    throw InputError("batch",
                     std::to_string(samples) + " samples for " + std::to_string(spec.microbatches) + " micro-batches",
                     "at least one sample for every micro-batch");
  }
  std::vector<std::int64_t> rows = torch_chunk(samples, spec.microbatches);
  if (static_cast<std::int64_t>(rows.size()) != spec.microbatches) {
    warnings.push_back(std::to_string(samples) + " samples in " + std::to_string(spec.microbatches) +
                       " micro-batches: torch.chunk makes only " + std::to_string(rows.size()) + ", of " +
                       std::to_string(rows.front()) +
                       (rows.size() > 1 ? " (last " + std::to_string(rows.back()) + ")" : "") + " samples");
  } else if (rows.back() != rows.front()) {
    warnings.push_back("micro-batches are not equal: " + std::to_string(rows.front()) + " samples, the last one " +
                       std::to_string(rows.back()));
  }
  return rows;
}

std::vector<std::int64_t> microbatch_rows(const RunSpec& spec) {
  std::vector<std::string> unused;
  return cut_into_microbatches(spec, replica_rows(spec, resolve(spec)).front(), unused);
}

}  // namespace pdl
