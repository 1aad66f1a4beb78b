#include "sim/spec/mesh.hpp"

#include <set>

namespace pdl {
namespace {

Program program_of(const RunSpec& spec) {
  if (spec.strategy == Strategy::ddp) return Program::ddp;
  if (spec.strategy == Strategy::dp) return Program::data_parallel;
  if (spec.workers == Workers::one) return Program::one_thread;
  return is_pytorch_pipeline(spec) ? Program::pytorch_pipeline : Program::pipeline;
}

}  // namespace

bool is_data_parallel(Program program) {
  return program == Program::ddp || program == Program::data_parallel;
}

std::int32_t Mesh::gpu(const MeshPlace& place) const {
  return static_cast<std::int32_t>((place.dp * pp + place.pp) * tp + place.tp);
}

MeshPlace Mesh::place(std::int32_t gpu) const {
  return {gpu / (pp * tp), gpu / tp % pp, gpu % tp};
}

WorkerGroup Mesh::group_along(std::int32_t gpu, Dimension dimension) const {
  MeshPlace place = this->place(gpu);
  std::int64_t& along = dimension == Dimension::dp ? place.dp : dimension == Dimension::pp ? place.pp : place.tp;
  const std::int64_t size = dimension == Dimension::dp ? dp : dimension == Dimension::pp ? pp : tp;
  WorkerGroup group;
  for (along = 0; along < size; ++along) group.push_back(this->gpu(place));
  return group;
}

std::int64_t Mesh::hosts_of(const WorkerGroup& group) const {
  std::set<std::int64_t> on;
  for (const std::int32_t gpu : group) on.insert(gpu * hosts / gpus());
  return static_cast<std::int64_t>(on.size());
}

Parallelism resolve(const RunSpec& spec) {
  return {program_of(spec), {replica_count(spec), pipeline_workers(spec), 1, spec.hosts}, Sharding::none};
}

bool is_data_parallel(const RunSpec& spec) {
  return spec.strategy == Strategy::dp || spec.strategy == Strategy::ddp;
}

bool is_pytorch_pipeline(const RunSpec& spec) {
  return spec.program == ProgramOf::pytorch && spec.strategy == Strategy::pp && spec.workers != Workers::one;
}

std::int64_t replica_count(const RunSpec& spec) {
  return is_data_parallel(spec) ? spec.gpus : spec.dp;
}

std::int64_t pipeline_workers(const RunSpec& spec) {
  return spec.gpus / replica_count(spec);
}

std::int64_t stage_count(const RunSpec& spec) {
  return pipeline_workers(spec) * spec.chunks;
}

ScheduleShape shape_of(const RunSpec& spec, std::int64_t microbatches) {
  return {static_cast<std::int32_t>(pipeline_workers(spec)), static_cast<std::int32_t>(spec.chunks),
          static_cast<std::int32_t>(microbatches)};
}

}  // namespace pdl
