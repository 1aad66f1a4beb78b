// What a user's words come to: the program of a step, the mesh of GPUs that it runs on, and what of a model is sharded.
//
//   resolve(spec of --gpus 6 --dp 2 --schedule gpipe)     program pipeline, mesh dp 2 x pp 3 x tp 1
//
//            pp 0   pp 1   pp 2
//     dp 0     0 ---> 1 ---> 2      a row is a replica: GPUs that pass activations on
//     dp 1     3 ---> 4 ---> 5      a column holds the same layers: its gradients are averaged, {0, 3}, {1, 4}, {2, 5}
//
//   --strategy ddp --gpus 4         program ddp,        mesh dp 4 x pp 1 x tp 1: one column
//   --strategy mp --gpus 4          program one_thread, mesh dp 1 x pp 4 x tp 1: one row
//
// GPUs are numbered as torch.distributed.init_device_mesh numbers a mesh (dp, pp, tp), the last dimension fastest:
//
//   gpu = (dp x pp_size + pp) x tp_size + tp;   a host has gpus / hosts of them, one after another
//
// So the GPUs of a tensor-parallel group, which talk most, are neighbours, then those of a pipeline, then replicas.
// A strategy is a word of the user; a spec is resolved once, when its plan is made, and everything behind the plan asks
// Plan::parallel. Where there is no plan (which hosts a profile has, texts about rows of a table) resolve() is asked.
//
// Not here yet: tp is 1 and nothing is sharded. Where an all-gather of a layer's parameters, or an all-reduce of its
// activations, is added, it is one over group_along(gpu, Dimension::dp or tp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"
#include "sim/spec/schedule.hpp"

namespace pdl {

/// Who issues what in a step, and by whose kernels.
///   pipeline       one worker a GPU; the stages of runtime/model
///   pytorch_pipeline  a process a GPU; the stages and schedules of torch.distributed.pipelining, modules and autograd
///   one_thread     one thread for all GPUs; LibTorch's modules and autograd, as the course writes it
///   ddp            DistributedDataParallel: a process a GPU, the whole model on each, the Reducer's buckets
///   data_parallel  nn.DataParallel: one process, the model copied to all GPUs in every forward
enum class Program : std::uint8_t { pipeline, pytorch_pipeline, one_thread, ddp, data_parallel };

/// ddp, data_parallel: every GPU computes the whole model; there are no stages to pass activations between.
bool is_data_parallel(Program program);

/// What a replica keeps only its share of. ZeRO (arXiv:1910.02054) and FSDP are further values: optimizer state,
/// gradients, parameters.
enum class Sharding : std::uint8_t { none };

/// Dimensions of a mesh, slowest first: replicas, stages of a replica's pipeline, shards of a layer.
enum class Dimension : std::uint8_t { dp, pp, tp };

/// Where a GPU stands in a mesh, from 0.
struct MeshPlace {
  std::int64_t dp = 0, pp = 0, tp = 0;
  bool operator==(const MeshPlace&) const = default;
};

/// GPUs, ascending: the place of one is its rank in the group.
using WorkerGroup = std::vector<std::int32_t>;

struct Mesh {
  std::int64_t dp = 1, pp = 1, tp = 1;
  std::int64_t hosts = 1;

  std::int64_t gpus() const { return dp * pp * tp; }
  std::int32_t gpu(const MeshPlace& place) const;
  MeshPlace place(std::int32_t gpu) const;
  /// The GPUs that differ from this one in that dimension alone, and itself.
  WorkerGroup group_along(std::int32_t gpu, Dimension dimension) const;
  /// How many hosts these GPUs are on.
  std::int64_t hosts_of(const WorkerGroup& group) const;
  bool operator==(const Mesh&) const = default;
};

struct Parallelism {
  Program program = Program::pipeline;
  Mesh mesh;
  Sharding sharding = Sharding::none;
  bool operator==(const Parallelism&) const = default;
};

Parallelism resolve(const RunSpec& spec);

// What sim/spec asks while it reads the words, before all of them are known.

/// True for the strategies whose program is data parallel alone: dp and ddp.
bool is_data_parallel(const RunSpec& spec);

/// True for a pipeline that is PyTorch's: torch.distributed.pipelining. Its workers must be known.
bool is_pytorch_pipeline(const RunSpec& spec);

/// Copies of the model, each with a part of the batch: of ddp and dp one a GPU, of a pipeline spec.dp.
std::int64_t replica_count(const RunSpec& spec);

/// GPUs of one replica: gpus / replica_count
std::int64_t pipeline_workers(const RunSpec& spec);

/// Of one replica: pipeline_workers x chunks
std::int64_t stage_count(const RunSpec& spec);

/// Of one replica, with so many micro-batches (torch.chunk may make fewer than were asked for).
ScheduleShape shape_of(const RunSpec& spec, std::int64_t microbatches);

}  // namespace pdl
