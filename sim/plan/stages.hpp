// Layers to stages, stages to GPUs.
//
//   30 layers, mesh dp 2 x pp 4:         first_layer 0    8    16    23
//                                        layer_count 8    8     7     7
//     replica 0   stages 0 1 2 3         GPU         0    1     2     3
//     replica 1   stages 4 5 6 7         GPU         4    5     6     7
//
// Stages of a replica stand one after another, replica after replica: neighbours in this list are neighbours in the
// pipeline, where both are of one replica. With several chunks a GPU has several stages: in a loop stage s is on the
// GPU s % pp, in a v they go down the GPUs and up again. dp and ddp: one stage a replica, the whole model.
//
// A stage is computed by all its workers together: one today, the GPUs of a tensor-parallel group where there is one.
// Transfers between two stages of n workers each will be n messages, from worker i of the one to worker i of the other,
// which holds the same shard; each is a task of its own (Task::worker tells them apart).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/spec/mesh.hpp"

namespace pdl {

struct Stage {
  WorkerGroup workers = {0};
  std::int32_t first_layer = 0;
  std::int32_t layer_count = 0;
  std::int32_t replica = 0;
  /// Buffers that the worker holds for this stage, one a live micro-batch. Where the input comes from another worker,
  /// one more than are live at once, so that the next one can arrive while the oldest is still needed.
  std::int32_t slots = 1;
  /// The largest number of micro-batches whose activations are kept at once.
  std::int32_t live_microbatches = 1;
};

/// For what is of one GPU: the worker of a stage that has one. Throws std::logic_error if it has several.
std::int32_t only_worker(const Stage& stage);

/// Layers as stage_layers() has them: as even as can be, or as was said. Throws as that.
std::vector<Stage> make_stages(const RunSpec& spec, const Mesh& mesh, Placement placement);

/// By worker: its stages, ascending.
std::vector<std::vector<std::int32_t>> stages_by_worker(const std::vector<Stage>& stages, std::int64_t gpus);

/// True if `stage` gets its input from the stage before, and gives its gradient to it, on the same workers: no
/// transfer.
bool is_local_boundary(const std::vector<Stage>& stages, std::size_t stage);

/// The first and the last stage of their replica.
bool is_first_stage(const std::vector<Stage>& stages, std::size_t stage);
bool is_last_stage(const std::vector<Stage>& stages, std::size_t stage);

}  // namespace pdl
