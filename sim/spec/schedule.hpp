// Pipeline schedules: the order of operations of every worker. One function a schedule, one file each under schedules/.
//
//   1F1B, 2 stages, 3 micro-batches:   worker 0   0F0 0F1 0B0 0F2 0B1 0B2
//                                      worker 1   1F0 1B0 1F1 1B1 1F2 1B2
//
//   PipelineOrder order = make_order(*find_schedule("1f1b"), {.workers = 2, .chunks = 1, .microbatches = 3});
//
// Adding one: a file with its function, a line in the table of schedule.cpp, a test.
// Not here: times (cost, engine), transfers between stages (plan), files (schedule_csv.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pdl {

enum class OperationKind : std::uint8_t {
  forward,
  backward,         // input and weight gradient
  backward_input,   // I
  backward_weight,  // W
  // Only where a file says when messages are sent and received; elsewhere the plan puts them beside their operation.
  send_forward,
  receive_forward,
  send_backward,
  receive_backward,
};

struct Operation {
  OperationKind kind = OperationKind::forward;
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  /// A forward and the whole backward after it that are meant to run as one (OVERLAP_F_B of DualPipeV): here one after
  /// the other, as PyTorch 2.11 does it by default.
  bool overlaps_next = false;
  bool operator==(const Operation&) const = default;
};

/// stages = workers * chunks.
struct ScheduleShape {
  std::int32_t workers = 1;
  std::int32_t chunks = 1;  // stages of a worker
  std::int32_t microbatches = 1;
  std::int32_t stages() const { return workers * chunks; }
  bool operator==(const ScheduleShape&) const = default;
};

/// Where stages live.
///   loop   stage s on worker s % P                         0 1 2 3 | 0 1 2 3
///   v      down the workers and up again, and so on        0 1 2 3 | 3 2 1 0
enum class Placement : std::uint8_t { loop, v };
std::int32_t worker_of_stage(Placement placement, std::int32_t workers, std::int32_t stage);
/// The stage that is chunk `chunk` (from 0) of `worker`.
std::int32_t stage_of_chunk(Placement placement, std::int32_t workers, std::int32_t worker, std::int32_t chunk);

/// What every worker does, in order; what the plan is made of. A worker's list need not be as long as another's.
struct PipelineOrder {
  Placement placement = Placement::loop;
  ScheduleShape shape;
  std::vector<std::vector<Operation>> workers;  // by worker
  bool operator==(const PipelineOrder&) const = default;
};

/// Why a schedule does not take a shape: what it is, "9 micro-batches on 4 GPUs, 2 groups", and what it should be, "a
/// multiple of the number of groups": in words that hold for any shape.
struct ShapeRefusal {
  std::string found;
  std::string expected;
};

/// Which numbers of micro-batches a schedule takes: nothing if the shape is fine.
using ShapeRule = std::optional<ShapeRefusal> (*)(const ScheduleShape& shape);

struct Schedule {
  std::string_view name;
  std::string_view source;   // paper or program the order is taken from
  std::string_view summary;  // the order, in a line
  /// Its class in torch.distributed.pipelining 2.11 (schedules.py, get_schedule_class), without "Schedule"; empty: none
  std::string_view pytorch_class = {};
  /// Stages of a worker: the least, the most and the default of --chunks.
  std::int32_t least_chunks = 1, most_chunks = 1, default_chunks = 1;
  Placement placement = Placement::loop;
  bool splits_backward = false;  // I and W apart
  /// Every worker has the same order, so one host thread can issue it for all of them (--workers one).
  bool same_on_every_worker = false;
  /// The next step's forwards start while other workers still finish this one (no barrier at the optimizer): a step
  /// then takes as long as the longest worker is at work, from its first operation to its last.
  bool steps_overlap = false;
  std::string_view bubble;      // idle time of a worker in closed form, equal stages, no transfers; F, B, W of a worker
  std::string_view memory;      // most live activations of a worker, in stage-sized ones of a pipeline with one chunk
  ShapeRule refuses = nullptr;  // null: any number of micro-batches
  std::vector<Operation> (*order)(const ScheduleShape& shape, std::int32_t worker) = nullptr;

  std::optional<ShapeRefusal> refusal(const ScheduleShape& shape) const {
    return refuses ? refuses(shape) : std::nullopt;
  }
  bool takes(const ScheduleShape& shape) const { return !refusal(shape); }
};

std::span<const Schedule> schedules();

/// nullptr if there is none of that name.
const Schedule* find_schedule(std::string_view name);

/// The schedule that another spelling means: the name of PyTorch's class with or without "Schedule", or the name here,
/// in any case, with hyphens and underscores anywhere: "ScheduleInterleaved1F1B", "interleaved-1f1b" are "interleaved".
/// nullptr: none.
const Schedule* schedule_meant_by(std::string_view spelling);

/// What such a name means beside PyTorch's program: a schedule with a class there. nullptr: none.
const Schedule* schedule_of_pytorch(std::string_view spelling);

/// The order of every worker. The shape must be one that the schedule takes.
PipelineOrder make_order(const Schedule& schedule, const ScheduleShape& shape);

/// PyTorch's types of actions.
struct ActionType {
  std::string_view name;
  OperationKind kind;
};
inline constexpr std::array kActionTypes = {
    ActionType{"F", OperationKind::forward},
    ActionType{"I", OperationKind::backward_input},
    ActionType{"B", OperationKind::backward},
    ActionType{"W", OperationKind::backward_weight},
    ActionType{"SEND_F", OperationKind::send_forward},
    ActionType{"RECV_F", OperationKind::receive_forward},
    ActionType{"SEND_B", OperationKind::send_backward},
    ActionType{"RECV_B", OperationKind::receive_backward},
};

/// "0F3", "1I0", "2SEND_F1".
std::string action_name(OperationKind kind, std::int32_t stage, std::int32_t microbatch);

std::vector<Operation> naive_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> gpipe_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> one_f_one_b_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> option_c_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> interleaved_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> interleaved_zero_bubble_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> looped_bfs_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> zb_h1_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> zb_h2_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> zb_v_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> dualpipe_v_order(const ScheduleShape& shape, std::int32_t worker);

}  // namespace pdl
