// Pipeline schedules: the order of operations of one worker. One function a schedule, one file each under schedules/.
//
//   1F1B, 2 stages, 3 micro-batches:   worker 0   F0 F1 B0 F2 B1 B2
//                                      worker 1   F0 B0 F1 B1 F2 B2
//
// Adding one: a file with its function, a line in the table of schedule.cpp, a test.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pdl {

enum class OperationKind : std::uint8_t { forward, backward, backward_input, backward_weight };

struct Operation {
  OperationKind kind;
  std::int32_t stage;
  std::int32_t microbatch;
  bool operator==(const Operation&) const = default;
};

/// stages = workers * chunks; with one chunk, stage s lives on worker s.
struct ScheduleShape {
  std::int32_t workers = 1;
  std::int32_t chunks = 1;
  std::int32_t microbatches = 1;
};

struct Schedule {
  std::string_view name;
  std::string_view source;  // paper or program the order is taken from
  std::string_view summary;
  std::vector<Operation> (*order)(const ScheduleShape& shape, std::int32_t worker);
};

std::span<const Schedule> schedules();

/// nullptr if there is none of that name.
const Schedule* find_schedule(std::string_view name);

std::vector<Operation> naive_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> gpipe_order(const ScheduleShape& shape, std::int32_t worker);
std::vector<Operation> one_f_one_b_order(const ScheduleShape& shape, std::int32_t worker);

}  // namespace pdl
