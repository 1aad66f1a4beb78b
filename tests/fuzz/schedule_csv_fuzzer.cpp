// Schedules as CSV files: what is read is written and read back as the same order and bytes.
#include "sim/spec/schedule_csv.hpp"
#include "tests/fuzz/fuzzing.hpp"

using namespace pdl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = unless_refused([&] { return parse_schedule_csv(text_of(data, size), "schedule.csv"); });
  if (!file) return 0;
  const std::string written = to_csv(*file);
  const ScheduleFile again = parse_schedule_csv(written, "schedule.csv");
  require(again.order == file->order, "the order is read back as it was");
  require(again.warnings == file->warnings, "so are its warnings");
  require_equal(written, to_csv(again), "a schedule and what it is read back as");
  if (!file->whole_step || file->warnings.size() > 0) return 0;
  require(parse_schedule_csv(to_csv(file->order), "schedule.csv").order == file->order,
          "an order without its cells is read back as it was");
  return 0;
}
