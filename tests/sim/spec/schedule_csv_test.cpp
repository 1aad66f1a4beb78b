#include "sim/spec/schedule_csv.hpp"

#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

/// The order that is read, a row a worker: "0F0 1F0 ...", "&" after the first of two that run together.
std::string drawn(const std::string& text) {
  std::string result;
  for (const auto& operations : parse_schedule_csv(text, "a.csv").order.workers) {
    for (const auto& [kind, stage, microbatch, overlaps] : operations)
      result += (result.empty() || result.back() == '\n' ? "" : " ") + action_name(kind, stage, microbatch) +
                (overlaps ? "&" : "");
    result += '\n';
  }
  return result;
}

/// The message of a file that is refused, without its name.
std::string refusal(const std::string& text) {
  try {
    parse_schedule_csv(text, "a.csv");
  } catch (const InputError& error) {
    REQUIRE(std::string(error.what()).starts_with("a.csv: "));
    return std::string(error.what()).substr(7);
  }
  return "accepted";
}

/// As it is read and written again.
std::string again(const std::string& text) {
  return to_csv(parse_schedule_csv(text, "a.csv"));
}

const std::string kGpipe =
    "0F0,0F1,,,0B0,0B1\n"
    ",1F0,1F1,1B0,1B1\n";

const std::string kWithMessages =
    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";

const std::string kPart =
    "2SEND_F1,0F2,0SEND_F2,2RECV_B0,2B0\n"
    "3RECV_F1,3SEND_B0,3F1,3B1,1RECV_F2,3SEND_B1,1F2\n";

}  // namespace

TEST_CASE("a CSV schedule is read, blank cells dropped from the order and kept in the file") {
  const ScheduleFile file = parse_schedule_csv(kGpipe, "a.csv");
  CHECK(drawn(kGpipe) == "0F0 0F1 0B0 0B1\n1F0 1F1 1B0 1B1\n");
  CHECK(file.order.shape == ScheduleShape{2, 1, 2});
  CHECK(file.order.placement == Placement::loop);
  CHECK(file.cells[1] == std::vector<std::string>{"", "1F0", "1F1", "1B0", "1B1"});
  CHECK_FALSE(file.has_transfers);
  CHECK(file.whole_step);
  CHECK(file.warnings.empty());
  CHECK(to_csv(file) == kGpipe);
}

TEST_CASE("a CSV schedule: split backwards, in any mixture with whole ones") {
  CHECK(drawn("0F0,0F1,0I0,0B1,0W0\n") == "0F0 0F1 0I0 0B1 0W0\n");
}

TEST_CASE("a CSV schedule: stages in a loop or down and up again") {
  const ScheduleFile loop = parse_schedule_csv("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n", "a.csv");
  CHECK(loop.order.placement == Placement::loop);
  CHECK(loop.order.shape == ScheduleShape{2, 2, 1});
  const ScheduleFile v = parse_schedule_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "a.csv");
  CHECK(v.order.placement == Placement::v);
  CHECK(v.order.shape == ScheduleShape{2, 2, 1});
}

TEST_CASE("a CSV schedule: two that run together are a forward and the backward after it") {
  const std::string text = "0F0,1F0,(0F1;1B0)OVERLAP_F_B,(1F1;0B0)OVERLAP_F_B,1B1,0B1\n";
  CHECK(drawn(text) == "0F0 1F0 0F1& 1B0 1F1& 0B0 1B1 0B1\n");
  CHECK(again(text) == text);
  CHECK(to_csv(parse_schedule_csv(text, "a.csv").order) == text);
  CHECK(drawn("0F0,1F0,( 0F1 ; 1I0 )OVERLAP_F_B,1W0,1F1,0B0,1B1,0B1\n") == "0F0 1F0 0F1& 1I0 1W0 1F1 0B0 1B1 0B1\n");
}

TEST_CASE("a CSV schedule: byte order mark, quotes, CR, no last line end, empty rows at the end") {
  const std::string right = "0F0 0B0\n1F0 1B0\n";
  CHECK(drawn("\xef\xbb\xbf"
              "0F0,0B0\n1F0,1B0") == right);
  CHECK(drawn("\"0F0\", \" 0B0 \"\n\"1F0\",\"1B0\"\n") == right);
  CHECK(drawn("0F0,0B0\r1F0,1B0\r") == right);
  CHECK(drawn("0F0,0B0\n1F0,1B0\n\n \r\n") == right);
  CHECK(again("\xef\xbb\xbf\" 0F0 \",,\t0B0, \r\n1F0,1B0") == "0F0,,0B0,\n1F0,1B0\n");
}

TEST_CASE("a CSV schedule of 2024: W and no I, so B is the input gradient and BW the whole backward") {
  const std::string text = "0F0,0F1,0B0,0W0,0BW1\n";
  CHECK(drawn(text) == "0F0 0F1 0I0 0W0 0B1\n");
  CHECK(again(text) == text);
  const ScheduleFile file = parse_schedule_csv(text, "a.csv");
  REQUIRE(file.warnings.size() == 1);
  CHECK_THAT(file.warnings[0], ContainsSubstring("B is read as the input gradient"));
  CHECK(drawn("0F0,0BW0\n") == "0F0 0B0\n");
  CHECK(drawn("0F0,0F1,0I0,0W0,0B1\n") == "0F0 0F1 0I0 0W0 0B1\n");  // I occurs: B stays whole
  CHECK(refusal("0F0,0F1,0I0,0W0,0BW1\n") ==
        "rank 0, position 4, cell 0BW1: found BW, the whole backward in files from 2024, expected B, as I occurs too "
        "(rank 0, position 2)");
  CHECK(refusal("0F0,0F1,0B0,0B1,0W1\n") ==
        "rank 0, position 2, cell 0B0: found no 0W0, expected 0W0 after it (the file has W and no I: B is read as the "
        "input gradient)");
  CHECK(refusal("0F0,0BW0,0B0,0W0\n") ==
        "rank 0, position 2, cell 0B0: found 0B0 beside 0BW0 (position 1), expected either 0BW0 or 0B0 and 0W0 for one "
        "micro-batch");
}

TEST_CASE("a CSV schedule: what stages that are whole on their GPU have no use for is kept and not done") {
  const std::string text = "0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n1F0,1B0,1REDUCE_GRAD\n";
  CHECK(drawn(text) == "0F0 0B0\n1F0 1B0\n");
  CHECK(again(text) == text);
  const ScheduleFile file = parse_schedule_csv(text, "a.csv");
  CHECK_FALSE(file.has_transfers);
  REQUIRE(file.warnings.size() == 1);
  CHECK(file.warnings[0] ==
        "a.csv: REDUCE_GRAD, UNSHARD, RESHARD (4 cells, the first at rank 0, position 0) do nothing here: every stage "
        "is whole on its GPU");
  CHECK(refusal("0F0,0B0,0REDUCE_GRAD0\n") ==
        "rank 0, position 2, cell 0REDUCE_GRAD0: found a micro-batch after REDUCE_GRAD, expected a stage alone");
  CHECK(refusal("0F0,0B0,1REDUCE_GRAD\n") ==
        "rank 0, position 2, cell 1REDUCE_GRAD: found stage 1, expected stages up to 0, the last one with an "
        "operation");
}

TEST_CASE("a CSV schedule with messages is a whole step with its transfers") {
  const ScheduleFile file = parse_schedule_csv(kWithMessages, "a.csv");
  CHECK(file.has_transfers);
  CHECK(file.whole_step);
  CHECK(file.warnings.empty());
  CHECK(file.order.workers[0][1] == Operation{OperationKind::send_forward, 0, 0});
  CHECK(file.order.workers[1][0] == Operation{OperationKind::receive_forward, 1, 0});
  CHECK(file.order.workers[1][3] == Operation{OperationKind::send_backward, 1, 0});
  CHECK(file.order.workers[0][4] == Operation{OperationKind::receive_backward, 0, 0});
  CHECK(to_csv(file) == kWithMessages);
  CHECK(to_csv(file.order) == kWithMessages);
}

TEST_CASE("a CSV schedule: neighbours on one rank hand over without a message") {
  const std::string v =
      "0F0,0SEND_F0,3RECV_F0,3F0,3I0,3SEND_B0,0RECV_B0,0I0,3W0,0W0\n"
      "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2I0,1I0,1SEND_B0,1W0,2W0\n";
  const ScheduleFile file = parse_schedule_csv(v, "a.csv");
  CHECK(file.whole_step);
  CHECK(file.order.placement == Placement::v);
  std::string with = v;
  with.insert(with.find("2F0,2SEND"), "1SEND_F0,");
  CHECK(refusal(with) ==
        "rank 1, position 2, cell 1SEND_F0: found 1SEND_F0, expected no message: stages 1 and 2 are both on rank 1");
}

TEST_CASE("a CSV schedule with messages and every compute action needs every message") {
  const auto without = [](const std::string& cell) {
    std::string text = kWithMessages;
    text.erase(text.find(cell + ","), cell.size() + 1);
    return text;
  };
  CHECK(refusal(without("0SEND_F1")) ==
        "rank 0, position 2, cell 0F1: found no 0SEND_F1, expected 0SEND_F1 after it: stage 1 is on rank 1");
  CHECK(refusal(without("1RECV_F1")) ==
        "rank 0, position 3, cell 0SEND_F1: found a message that nobody receives, expected 1RECV_F1 on rank 1 before "
        "1F1 "
        "(position 4)");
  CHECK(refusal(without("1SEND_B0")) ==
        "rank 0, position 4, cell 0RECV_B0: found a message that nobody sends, expected 1SEND_B0 on rank 1");
  CHECK(refusal(without("0RECV_B1")) ==
        "rank 0, position 6, cell 0B1: found no 0RECV_B1, expected 0RECV_B1 before it: stage 1 is on rank 1");
}

TEST_CASE("a CSV schedule: messages in the wrong place") {
  CHECK(refusal("0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n") ==
        "rank 0, position 0, cell 0SEND_F0: found 0SEND_F0 before 0F0 (position 1), expected a message sent after the "
        "action that makes it and received before the one that needs it");
  CHECK(refusal("0F0,0SEND_F0,0B0,0RECV_B0\n1RECV_F0,1F0,1B0,1SEND_B0\n") ==
        "rank 0, position 2, cell 0B0: found 0B0 before 0RECV_B0 (position 3), expected a message sent after the "
        "action "
        "that makes it and received before the one that needs it");
  CHECK(refusal("0F0,0SEND_F0,0RECV_B0,0B0,0SEND_B0\n1RECV_F0,1F0,1B0,1SEND_B0\n") ==
        "rank 0, position 4, cell 0SEND_B0: found 0SEND_B0, expected no message there: stage 0 is the first one");
  CHECK(refusal("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_F0,1B0,1SEND_B0\n") ==
        "rank 1, position 2, cell 1SEND_F0: found 1SEND_F0, expected no message there: stage 1 is the last one");
  CHECK(refusal("0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n") ==
        "rank 0, position 2, cell 0SEND_F0: found 0SEND_F0 a second time (the first is at position 1), expected every "
        "action once");
  CHECK(refusal("0F0,1RECV_F0,0RECV_B0,0B0\n0SEND_F0,1F0,1B0,1SEND_B0\n") ==
        "rank 0, position 1, cell 1RECV_F0: found stage 1 on rank 0, expected it on rank 1 (stage s on rank s % 2, "
        "which "
        "most cells hold to)");
}

TEST_CASE("a CSV schedule: a part of a step is taken if it has messages, and says what is missing") {
  const ScheduleFile file = parse_schedule_csv(kPart, "a.csv");
  CHECK(file.order.shape == ScheduleShape{2, 2, 3});
  CHECK(file.order.placement == Placement::loop);
  CHECK(file.has_transfers);
  CHECK_FALSE(file.whole_step);
  CHECK(drawn(kPart) == "2SEND_F1 0F2 0SEND_F2 2RECV_B0 2B0\n3RECV_F1 3SEND_B0 3F1 3B1 1RECV_F2 3SEND_B1 1F2\n");
  CHECK(to_csv(file) == kPart);
  REQUIRE(file.warnings.size() == 1);
  CHECK(file.warnings[0] ==
        "a.csv: a part of a step, read because it has SEND and RECV: 9 forwards, 10 backwards and 29 SEND or RECV "
        "actions are missing, among them 0F0, 0B0, 0F1, 0B1");
}

TEST_CASE("a CSV schedule: a part of a step does not contradict itself") {
  // rank 0 sends stage 0's forwards; rank 1 does what comes after
  CHECK(refusal("0SEND_F0,0SEND_F1\n1RECV_F0,1B0,1F0\n") ==
        "rank 1, position 1, cell 1B0: found 1B0 before 1F0 (position 2), expected 1F0 first");
  CHECK(refusal("0SEND_F0\n1RECV_F0,1F0,1W0,1I0\n") ==
        "rank 1, position 2, cell 1W0: found 1W0 before 1I0 (position 3), expected 1I0 first");
  CHECK(refusal("0SEND_F0\n1RECV_F0,1F0,1B0,1I0\n") ==
        "rank 1, position 3, cell 1I0: found 1I0 beside 1B0 (position 2), expected either 1B0 or 1I0 and 1W0 for one "
        "micro-batch");
  CHECK(refusal("0SEND_F0\n1F0\n") ==
        "rank 0, position 0, cell 0SEND_F0: found a message that nobody receives, expected 1RECV_F0 on rank 1 before "
        "1F0 "
        "(position 0)");
  CHECK(refusal("0F0\n1RECV_F0,1F0\n") ==
        "rank 1, position 0, cell 1RECV_F0: found a message that nobody sends, expected 0SEND_F0 on rank 0");
  CHECK(refusal("0SEND_F0,0RECV_B0,0W0\n1RECV_F0,1F0,1SEND_B0,1I0\n") ==
        "rank 1, position 2, cell 1SEND_B0: found 1SEND_B0 before 1I0 (position 3), expected a message sent after the "
        "action that makes it and received before the one that needs it");
  CHECK(drawn("0SEND_F0,0RECV_B0,0W0\n1RECV_F0,1F0,1I0,1SEND_B0\n") ==
        "0SEND_F0 0RECV_B0 0W0\n1RECV_F0 1F0 1I0 1SEND_B0\n");
}

TEST_CASE("a CSV schedule: cells that are no actions") {
  const std::string form =
      ", expected <stage><type><micro-batch>, such as 1F0, types F, I, B, W, SEND_F, RECV_F, SEND_B, RECV_B; "
      "(0F7;7B3)OVERLAP_F_B; or <stage> and REDUCE_GRAD, UNSHARD or RESHARD";
  for (const char* cell :
       {"F0", "0", "0X0", "0f0", "-1F0", "0F0x", "0F-1", "0F 1", "0F0B0", "0OVERLAP_F_B0", "0B W0", "\"0F0", "0.5F0"})
    CHECK(refusal(std::string("0F0,") + cell + "\n") ==
          std::string("rank 0, position 1, cell ") + cell + ": found no action that can be read" + form);
  CHECK(refusal("0F0,0B\n") == "rank 0, position 1, cell 0B: found no micro-batch after B" + form);
  CHECK(refusal("Step 0,Step 1\n0F0,0B0\n") ==
        "rank 0, position 0, cell Step 0: found no action that can be read" + form);
  CHECK(refusal("0F0,\x1b[2J\n") == "rank 0, position 1, cell ?[2J: found no action that can be read" + form);
  CHECK(refusal("0F0," + std::string(100, 'x')) ==
        "rank 0, position 1, cell " + std::string(60, 'x') + "...: found no action that can be read" + form);
  for (const char* cell : {"(0F1;0B0", "(0F1)OVERLAP_F_B", "(0F1;0B0)", "(0F1;0B0)OVERLAP", "()OVERLAP_F_B", "("})
    CHECK_THAT(refusal(std::string("0F0,") + cell + "\n"),
               ContainsSubstring(std::string("rank 0, position 1, cell ") + cell + ": found "));
  CHECK(refusal("0F0,(0B0;0F1)OVERLAP_F_B,0B1\n") ==
        "rank 0, position 1, cell (0B0;0F1)OVERLAP_F_B: found another pair, expected a forward, then a backward, as in "
        "(0F7;7B3)OVERLAP_F_B");
  CHECK(refusal("0F0,(0F1;0B0;0F2)OVERLAP_F_B\n").starts_with("rank 0, position 1, cell (0F1;0B0;0F2)OVERLAP_F_B"));
}

TEST_CASE("a CSV schedule: numbers that are too large") {
  CHECK(refusal("0F0,1000001F0\n") ==
        "rank 0, position 1, cell 1000001F0: found a stage that is too large, expected at most 1000000");
  CHECK(refusal("0F0,0F99999999999999999999\n") ==
        "rank 0, position 1, cell 0F99999999999999999999: found a micro-batch that is too large, expected at most "
        "1000000");
  // 1e12 micro-batches of stages that are not there: refused without room for them
  CHECK(refusal("1000000F1000000\n") ==
        "rank 0, position 0, cell 1000000F1000000: found stage 1000000, but no stage 0, expected every stage from 0 to "
        "the largest");
}

TEST_CASE("a CSV schedule: files without actions") {
  for (const char* text : {"", "\n\n", "\xef\xbb\xbf", " \r\n"})
    CHECK_THAT(refusal(text), ContainsSubstring("found no action in 0 rows, expected actions"));
  CHECK_THAT(refusal(",,\n0REDUCE_GRAD\n"), ContainsSubstring("found no action in 2 rows"));
  CHECK(refusal(std::string("0F0,0B0\0\n", 9)) == "found a NUL byte at byte 7, expected a text file");
}

TEST_CASE("a CSV schedule: actions that are missing") {
  CHECK(refusal("0F0,0F1,0B0\n") ==
        "rank 0, position 1, cell 0F1: found no backward of it, expected 0B1 (or 0I1 and 0W1) after it");
  CHECK(refusal("0F0,0B1,0B0\n") == "rank 0, position 1, cell 0B1: found no 0F1, expected 0F1 before it");
  CHECK(refusal("0F0,0F1,0I0,0I1,0W0\n") == "rank 0, position 3, cell 0I1: found no 0W1, expected 0W1 after it");
  CHECK(refusal("0F0,0F1,0I0,0W0,0W1\n") == "rank 0, position 4, cell 0W1: found no 0I1, expected 0I1 before it");
  CHECK(refusal("0F0,0B0\n1F0,1B0,1F1,1B1\n") ==
        "rank 0, position 2 (the end of the row): found neither 0F1 nor a backward of it in the row, expected 0F1 and "
        "0B1 "
        "(or 0I1 and 0W1): micro-batch 1 occurs at rank 1, position 2, cell 1F1");
  CHECK(refusal("0F0,0B0,0F2,0B2\n") ==
        "rank 0, position 2, cell 0F2: found micro-batch 2, but no micro-batch 1, expected every micro-batch from 0 to "
        "the largest");
  CHECK(refusal("0F0,0B0\n3F0,3B0\n") ==
        "rank 1, position 0, cell 3F0: found stage 3, but no stage 1, expected every stage from 0 to the largest");
  CHECK(refusal("0F0,0B0\n,,\n") ==
        "rank 1, position 0, a blank cell: found a row without actions, expected one or more stages on every rank");
  CHECK(refusal("0F0,0B0\n\n2F0,2B0\n") ==
        "rank 1, position 0 (the end of the row): found a row without actions, expected one or more stages on every "
        "rank");
}

TEST_CASE("a CSV schedule: stages that are not spread evenly") {
  CHECK(refusal("0F0,2F0,2B0,0B0\n1F0,1B0\n") ==
        "rank 0, position 1, cell 2F0: found stage 2 as the last one on 2 ranks, expected as many stages on every "
        "rank: "
        "their number a multiple of 2");
  CHECK(refusal("0F0,1F0,1B0,0B0\n2F0,3F0,3B0,2B0\n")
            .starts_with("rank 0, position 1, cell 1F0: found stage 1 on rank 0"));
}

TEST_CASE("a CSV schedule on disk") {
  const TemporaryFolder folder;
  const std::string path = folder.write("mine.csv", kGpipe);
  CHECK(to_csv(load_schedule_csv(path)) == kGpipe);
  const auto message = [](const std::string& name) -> std::string {
    try {
      load_schedule_csv(name);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(message(folder / "none.csv") ==
        folder / "none.csv" + ": found no such file, expected a schedule as a CSV file");
  CHECK(message(folder.path()) == folder.path() + ": found a folder, expected a schedule as a CSV file");
  const std::string bad = folder.write("bad.csv", "0F0,0F0\n");
  CHECK_THAT(message(bad), ContainsSubstring(bad + ": rank 0, position 1, cell 0F0: found 0F0 a second time"));
}

TEST_CASE("every named schedule comes back from its CSV as it was") {
  for (const Schedule& schedule : schedules())
    for (std::int32_t workers = 1; workers <= 5; ++workers)
      for (const std::int32_t chunks : {schedule.least_chunks, std::min(schedule.most_chunks, 3)})
        for (std::int32_t microbatches = 1; microbatches <= 12; ++microbatches) {
          const ScheduleShape shape{workers, chunks, microbatches};
          if (!schedule.takes(shape)) continue;
          CAPTURE(schedule.name, workers, chunks, microbatches);
          const PipelineOrder order = make_order(schedule, shape);
          const std::string text = to_csv(order);
          const ScheduleFile file = parse_schedule_csv(text, "a.csv");
          PipelineOrder expected = order;
          if (workers == 1 || chunks == 1) expected.placement = Placement::loop;  // the same either way
          CHECK(file.order == expected);
          CHECK(file.warnings.empty());
          CHECK(to_csv(file) == text);
        }
}
