// Each row of the known cases about CSV files of schedules. The schedule that is broken: 1F1B, 2 GPUs, 4 micro-batches.
#include "sim/io/error.hpp"
#include "sim/spec/schedule_csv.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

const std::string kRank0 = "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n";
const std::string kRank1 = "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n";

std::string refusal(const std::string& text) {
  try {
    parse_schedule_csv(text, "pipeline.csv");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string with(std::string text, const std::string& old_cells, const std::string& cells) {
  const std::size_t place = text.find(old_cells);
  REQUIRE(place != std::string::npos);
  return text.replace(place, old_cells.size(), cells);
}

}  // namespace

TEST_CASE("schedule CSV: spaces round cells, CRLF, empty cells and rows of unequal length are accepted") {
  const PipelineOrder plain = parse_schedule_csv(kRank0 + kRank1, "pipeline.csv").order;
  const ScheduleFile file = parse_schedule_csv(
      " 0F0 ,0F1,,,0B0,0F2 , 0B1,0F3,,0B2,,0B3\r\n,1F0,1B0,1F1,1B1,\t1F2,1B2,1F3,1B3\r\n", "pipeline.csv");
  CHECK(file.order == plain);
  CHECK(file.order == make_order(*find_schedule("1f1b"), {2, 1, 4}));
  CHECK(to_csv(file) == "0F0,0F1,,,0B0,0F2,0B1,0F3,,0B2,,0B3\n,1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
}

TEST_CASE("schedule CSV: duplicate 0F1 is refused") {
  CHECK(refusal(with(kRank0, "0F3,", "0F1,0F3,") + kRank1) ==
        "pipeline.csv: rank 0, position 5, cell 0F1: found 0F1 a second time (the first is at position 1), expected "
        "every "
        "action once");
}

TEST_CASE("schedule CSV: missing 1B3 is refused") {
  CHECK(refusal(kRank0 + with(kRank1, ",1B3", "")) ==
        "pipeline.csv: rank 1, position 6, cell 1F3: found no backward of it, expected 1B3 (or 1I3 and 1W3) after it");
}

TEST_CASE("schedule CSV: 0B0 before 0F0 is refused") {
  CHECK(refusal("0B0,0F0,0F1,0F2,0B1,0F3,0B2,0B3\n" + kRank1) ==
        "pipeline.csv: rank 0, position 0, cell 0B0: found 0B0 before 0F0 (position 1), expected 0F0 first");
}

TEST_CASE("schedule CSV: a stage on the wrong rank is refused") {
  CHECK(refusal(with(kRank0, "0F3", "1F3,0F3") + with(kRank1, "1F3,", "")) ==
        "pipeline.csv: rank 0, position 5, cell 1F3: found stage 1 on rank 0, expected it on rank 1 (stage s on rank "
        "s % 2, which most cells hold to)");
  CHECK(refusal(kRank1 + kRank0) ==
        "pipeline.csv: rank 0, position 0, cell 1F0: found stage 1 on rank 0, expected it on rank 1 (stage s on rank "
        "s % 2, which most cells hold to)");
}

TEST_CASE("schedule CSV: W without I is refused") {
  // where I occurs elsewhere, and where none does (2024's letters)
  CHECK(refusal(with(kRank0, "0B0", "0I0,0W0") + with(kRank1, "1B3", "1W3")) ==
        "pipeline.csv: rank 1, position 7, cell 1W3: found no 1I3, expected 1I3 before it");
  CHECK(refusal(kRank0 + with(kRank1, "1B3", "1W3")) ==
        "pipeline.csv: rank 1, position 7, cell 1W3: found no 1B3, expected 1B3 before it");
}

TEST_CASE("schedule CSV: B and I and W for one micro-batch are refused") {
  CHECK(refusal(kRank0 + with(kRank1, "1B1", "1I1,1B1,1W1")) ==
        "pipeline.csv: rank 1, position 4, cell 1B1: found 1B1 beside 1I1 (position 3), expected either 1B1 or 1I1 and "
        "1W1 for one micro-batch");
  CHECK(refusal(kRank0 + with(kRank1, "1B1", "1B1,1I1,1W1")) ==
        "pipeline.csv: rank 1, position 4, cell 1I1: found 1I1 beside 1B1 (position 3), expected either 1B1 or 1I1 and "
        "1W1 for one micro-batch");
}

TEST_CASE("blocking order: the CSV is read as a part of a step") {
  const ScheduleFile file = parse_schedule_csv(
      "2SEND_F1,0F2,0SEND_F2,2RECV_B0,2B0\n3RECV_F1,3SEND_B0,3F1,3B1,1RECV_F2,3SEND_B1,1F2\n", "pipeline.csv");
  CHECK(file.order.shape == ScheduleShape{2, 2, 3});
  CHECK(file.has_transfers);
  CHECK_FALSE(file.whole_step);
  CHECK(file.order.workers[0].size() == 5);
  CHECK(file.order.workers[1].size() == 7);
}
