// What processes of torch.distributed.pipelining issue, as text: "0F0 {0SEND_F0} wait 0F1": computation, batches of
// messages, waits for the batch of that number. That the order is PyTorch's own: tests/peers/schedule_csv_pytorch.py.
#include "sim/plan/pytorch_actions.hpp"

#include <set>

#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

std::string text_of(const PytorchAction& action) {
  if (action.kind == PytorchAction::Kind::wait) return "wait" + std::to_string(action.batch);
  if (action.kind == PytorchAction::Kind::scale) return "scale" + std::to_string(action.operations.front().stage);
  std::string text;
  for (const Operation& operation : action.operations) {
    text += (text.empty() ? "" : " ") + action_name(operation.kind, operation.stage, operation.microbatch);
  }
  return action.kind == PytorchAction::Kind::post ? "{" + text + "}" : text;
}

/// A line a process.
std::vector<std::string> drawn(const std::string& schedule, const ScheduleShape& shape, bool scales_gradients = false) {
  const Schedule& found = *find_schedule(schedule);
  std::vector<std::string> lines;
  for (const auto& actions : pytorch_actions(make_order(found, shape), found.pytorch_class, scales_gradients)) {
    std::string line;
    for (const PytorchAction& action : actions) line += (line.empty() ? "" : " ") + text_of(action);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("ScheduleGPipe waits for a receive at once, for the sends of a direction after its last micro-batch") {
  CHECK(
      drawn("gpipe", {2, 1, 2}) ==
      std::vector<std::string>{"0F0 {0SEND_F0} 0F1 {0SEND_F1} wait0 wait1 {0RECV_B0} wait2 0B0 {0RECV_B1} wait3 0B1",
                               "{1RECV_F0} wait0 1F0 {1RECV_F1} wait1 1F1 1B0 {1SEND_B0} 1B1 {1SEND_B1} wait2 wait3"});
}

TEST_CASE("Schedule1F1B: where the direction turns a send and the next receive are one batch") {
  CHECK(drawn("1f1b", {2, 1, 3}) ==
        std::vector<std::string>{
            "0F0 {0SEND_F0} 0F1 wait0 {0SEND_F1 0RECV_B0} wait1 0B0 0F2 {0SEND_F2 0RECV_B1} wait2 0B1 {0RECV_B2} wait3 "
            "0B2",
            "{1RECV_F0} wait0 1F0 1B0 {1SEND_B0 1RECV_F1} wait1 1F1 1B1 {1SEND_B1 1RECV_F2} wait2 1F2 1B2 {1SEND_B2} "
            "wait3"});
  // In the middle of three: a send of the cool-down is waited for after the next backward.
  CHECK(drawn("1f1b", {3, 1, 3})[1] ==
        "{1RECV_F0} wait0 1F0 {1SEND_F0} {1RECV_F1} wait2 1F1 wait1 {1SEND_F1 1RECV_B0} wait3 1B0 {1SEND_B0 1RECV_F2} "
        "wait4 1F2 {1SEND_F2 1RECV_B1} wait5 1B1 {1SEND_B1} {1RECV_B2} wait7 1B2 wait6 {1SEND_B2} wait8");
}

TEST_CASE(
    "_PipelineScheduleRuntime: senders put receives where they are, long before they are needed, sends are waited "
    "for at the end") {
  CHECK(drawn("looped-bfs", {2, 2, 1}) ==
        std::vector<std::string>{
            "0F0 {0SEND_F0} {2RECV_F0} wait1 2F0 {2SEND_F0} {2RECV_B0} wait3 2B0 {2SEND_B0} {0RECV_B0} wait5 0B0 wait4 "
            "wait2 wait0",
            "{1RECV_F0} wait0 1F0 {1SEND_F0} {3RECV_F0} wait2 3F0 3B0 {3SEND_B0} {1RECV_B0} wait4 1B0 {1SEND_B0} wait5 "
            "wait3 wait1"});
}

TEST_CASE("a V: nothing is sent between stages of one process, the first stage's split backward is one whole") {
  const std::vector<std::string> lines = drawn("zb-v", {2, 2, 3});
  CHECK_THAT(lines[0], !ContainsSubstring("0I") && !ContainsSubstring("0W") && ContainsSubstring("0B2"));
  CHECK_THAT(lines[1], !ContainsSubstring("1SEND_F") && !ContainsSubstring("2RECV_F") && ContainsSubstring("1I0"));
  CHECK(drawn("zb-v", {1, 2, 2}) == std::vector<std::string>{"0F0 1F0 1I0 1W0 0F1 0B0 1F1 1I1 1W1 0B1"});
}

TEST_CASE("one process sends nothing, whatever its schedule") {
  CHECK(drawn("gpipe", {1, 1, 2}) == std::vector<std::string>{"0F0 0F1 0B0 0B1"});
  CHECK(drawn("1f1b", {1, 1, 2}) == std::vector<std::string>{"0F0 0B0 0F1 0B1"});
  CHECK(drawn("interleaved", {1, 2, 1}) == std::vector<std::string>{"0F0 1F0 1B0 0B0"});
}

TEST_CASE("every schedule of PyTorch and many shapes: each operation once, each message once at either end") {
  for (const Schedule& schedule : schedules()) {
    if (schedule.pytorch_class.empty()) continue;
    for (std::int32_t workers = 1; workers <= 5; ++workers) {
      for (std::int32_t microbatches = workers; microbatches <= 11; microbatches += 2) {
        const ScheduleShape shape{workers, schedule.default_chunks, microbatches};
        if (!schedule.takes(shape)) continue;
        CAPTURE(schedule.name, workers, microbatches);
        std::map<std::string, int> seen;
        const PipelineOrder order = make_order(schedule, shape);
        for (const auto& actions : pytorch_actions(order, schedule.pytorch_class)) {
          std::int32_t batches = 0;
          std::set<std::int32_t> waited;
          for (const PytorchAction& action : actions) {
            if (action.kind == PytorchAction::Kind::post) CHECK(action.batch == batches++);
            if (action.kind == PytorchAction::Kind::wait) CHECK(waited.insert(action.batch).second);
            for (const Operation& o : action.operations) ++seen[action_name(o.kind, o.stage, o.microbatch)];
          }
          CHECK(std::ssize(waited) == batches);  // every batch is waited for, once
        }
        int operations = 0, messages = 0;
        for (const auto& [name, times] : seen) {
          CHECK(times == 1);
          const bool moves = name.find('_') != std::string::npos;
          operations += !moves;
          messages += moves;
        }
        int expected = 0, crossing = 0;
        for (const auto& of_worker : order.workers) {
          for (const Operation& o : of_worker) expected += !(o.stage == 0 && o.kind == OperationKind::backward_input);
        }
        for (std::int32_t stage = 1; stage < shape.stages(); ++stage) {
          crossing +=
              worker_of_stage(order.placement, workers, stage) != worker_of_stage(order.placement, workers, stage - 1);
        }
        CHECK(operations == expected);
        CHECK(messages == 4 * crossing * microbatches);
      }
    }
  }
}

TEST_CASE("gradients are scaled after the last wait, of several stages a GPU behind the last backward of each") {
  CHECK(drawn("gpipe", {2, 1, 1}, true) ==
        std::vector<std::string>{"0F0 {0SEND_F0} wait0 {0RECV_B0} wait1 0B0 scale0",
                                 "{1RECV_F0} wait0 1F0 1B0 {1SEND_B0} wait1 scale1"});
  CHECK(drawn("1f1b", {2, 1, 2}, true)[1] ==
        "{1RECV_F0} wait0 1F0 1B0 {1SEND_B0 1RECV_F1} wait1 1F1 1B1 {1SEND_B1} wait2 scale1");
  // The second stage of the last GPU is done first, and its gradient is under way when its gradients are scaled.
  const std::string last = drawn("looped-bfs", {2, 2, 1}, true)[1];
  CHECK(last.find("3B0 {3SEND_B0}") < last.find("scale3"));
  CHECK(last.find("scale3") < last.find("1B0"));
  CHECK(last.find("1B0 {1SEND_B0}") < last.find("scale1"));
}
