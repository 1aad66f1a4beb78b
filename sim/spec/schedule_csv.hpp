// Schedules as CSV files in PyTorch's format: row r is GPU r, a cell is one step of it, a blank cell is an idle one.
//
//   0F0,0F1,,0B0,0B1          an action: <stage><type><micro-batch>; no header
//   ,1F0,1B0,1F1,1B1          types F, I (input gradient), B (whole backward), W (weight gradient),
//                             SEND_F, RECV_F, SEND_B, RECV_B; (0F7;7B3)OVERLAP_F_B: two that run together;
//                             REDUCE_GRAD, UNSHARD, RESHARD, with a stage alone, are kept in the file and not executed
//
// Files from 2024 write the input gradient as B and the whole backward as BW: where W or BW occurs and I does not, B is
// read as I. Spaces and quotes round cells, CRLF, a byte order mark, blank cells and rows of unequal length are taken.
//
// Not here: whether an order finishes (a deadlock is found when it is simulated).
//
//   ScheduleFile file = load_schedule_csv("mine.csv");
//   file.order.workers[0]
//   write: to_csv(make_order(*find_schedule("zb-v"), shape))
//
// Source of the format: torch/distributed/pipelining/schedules.py, PyTorch 2.11 (_Action, _dump_csv, _load_csv).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/spec/schedule.hpp"

namespace pdl {

struct ScheduleFile {
  PipelineOrder order;  // shape.microbatches: the largest index and one
  /// The cells of each row as written in the file, without the spaces and quotes round them; blank ones too.
  std::vector<std::vector<std::string>> cells;
  /// The file says when messages are sent and received.
  bool has_transfers = false;
  /// False: a part of a step, which only a file with SEND and RECV may be. `warnings` says what is missing.
  bool whole_step = true;
  std::vector<std::string> warnings;
};

/// Throws InputError with file, rank, position (from 0) and cell. Refused are
///   an action that cannot be read, one that occurs twice, one that is missing;
///   a backward before its forward, W before or without its I, both B and I or W for one micro-batch;
///   a stage on another rank than its placement says (loop or v, whichever more of the cells fit), ranks with different
///   numbers of stages;
///   a message that its stages do not exchange, one sent before it is made or received after it is needed, a receive
///   that nobody sends, a send whose user is in the file and does not receive it;
///   no action at all, a NUL byte, a stage or micro-batch above 1,000,000, a file above 1 GiB or 20,000,000 cells.
/// A file with SEND or RECV may lack compute actions: it is a part of a step then. If it has all of them it must have
/// every message, too.
ScheduleFile parse_schedule_csv(std::string_view text, const std::string& place);
ScheduleFile load_schedule_csv(const std::string& path);

/// A row a worker, no blank cells; parse_schedule_csv(to_csv(order)).order == order.
std::string to_csv(const PipelineOrder& order);
/// The file again, blank cells where they were; without cells (an order that a search has found) as above.
std::string to_csv(const ScheduleFile& file);

}  // namespace pdl
