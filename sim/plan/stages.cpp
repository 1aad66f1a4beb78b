#include "sim/plan/stages.hpp"

#include <stdexcept>

#include "sim/spec/stage_layers.hpp"

namespace pdl {

std::int32_t only_worker(const Stage& stage) {
  if (stage.workers.size() != 1) throw std::logic_error("one worker is asked for, of a stage of several");
  return stage.workers.front();
}

std::vector<Stage> make_stages(const RunSpec& spec, const Mesh& mesh, Placement placement) {
  const std::vector<std::int64_t> layers = stage_layers(spec, mesh.pp * spec.chunks);
  std::vector<Stage> stages;
  for (std::int32_t replica = 0; replica < mesh.dp; ++replica) {
    std::int32_t first = 0;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const auto count = static_cast<std::int32_t>(layers[s]);
      const std::int32_t of_replica =
          worker_of_stage(placement, static_cast<std::int32_t>(mesh.pp), static_cast<std::int32_t>(s));
      const std::int32_t gpu = mesh.gpu({.dp = replica, .pp = of_replica, .tp = 0});
      stages.push_back({mesh.group_along(gpu, Dimension::tp), first, count, replica, 1, 1});
      first += count;
    }
  }
  return stages;
}

std::vector<std::vector<std::int32_t>> stages_by_worker(const std::vector<Stage>& stages, std::int64_t gpus) {
  std::vector<std::vector<std::int32_t>> of_worker(static_cast<std::size_t>(gpus));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::int32_t worker : stages[s].workers)
      of_worker[static_cast<std::size_t>(worker)].push_back(static_cast<std::int32_t>(s));
  }
  return of_worker;
}

bool is_local_boundary(const std::vector<Stage>& stages, std::size_t stage) {
  return !is_first_stage(stages, stage) && stages[stage - 1].workers == stages[stage].workers;
}

bool is_first_stage(const std::vector<Stage>& stages, std::size_t stage) {
  return stage == 0 || stages[stage - 1].replica != stages[stage].replica;
}

bool is_last_stage(const std::vector<Stage>& stages, std::size_t stage) {
  return stage + 1 == stages.size() || stages[stage + 1].replica != stages[stage].replica;
}

}  // namespace pdl
