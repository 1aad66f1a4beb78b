#include "sim/spec/schedule.hpp"

#include <algorithm>
#include <string>

#include "tests/support/catch.hpp"

namespace pdl {
namespace {

/// "0F0 (0F1 1B0) 1W0": the order of a worker; brackets round the two that are meant to overlap.
std::string drawn(const std::string& schedule, ScheduleShape shape, std::int32_t worker) {
  std::string text;
  bool closes = false;
  const PipelineOrder order = make_order(*find_schedule(schedule), shape);
  for (const Operation& o : order.workers.at(static_cast<std::size_t>(worker))) {
    text += (text.empty() ? "" : " ") + std::string(o.overlaps_next ? "(" : "") +
            action_name(o.kind, o.stage, o.microbatch) + (closes ? ")" : "");
    closes = o.overlaps_next;
  }
  return text;
}

std::string every_worker(const std::string& schedule, ScheduleShape shape) {
  std::string text;
  for (std::int32_t w = 0; w < shape.workers; ++w) text += drawn(schedule, shape, w) + "\n";
  return text;
}

std::string refusal(const std::string& schedule, ScheduleShape shape) {
  const auto refused = find_schedule(schedule)->refusal(shape);
  return refused ? refused->found + " | " + refused->expected : "";
}

TEST_CASE("Schedule naive: one micro-batch at a time") {
  CHECK(every_worker("naive", {2, 1, 2}) ==
        "0F0 0B0 0F1 0B1\n"
        "1F0 1B0 1F1 1B1\n");
}

TEST_CASE("Schedule gpipe: all forwards, then all backwards") {
  CHECK(every_worker("gpipe", {2, 1, 3}) ==
        "0F0 0F1 0F2 0B0 0B1 0B2\n"
        "1F0 1F1 1F2 1B0 1B1 1B2\n");
}

TEST_CASE("Schedule 1f1b: warm-up of P-1-s forwards") {
  CHECK(every_worker("1f1b", {3, 1, 4}) ==
        "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3\n"
        "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3\n"
        "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3\n");
  CHECK(drawn("1f1b", {4, 1, 2}, 0) == "0F0 0F1 0B0 0B1");
}

TEST_CASE("Schedule option-c: as the course writes it, the same on every GPU") {
  CHECK(every_worker("option-c", {2, 1, 3}) ==
        "0F0 0F1 0B0 0F2 0B1 0B2\n"
        "1F0 1F1 1B0 1F2 1B1 1B2\n");
  CHECK(drawn("option-c", {1, 1, 1}, 0) == "0F0 0B0");
}

TEST_CASE("Schedule interleaved: groups of P micro-batches through each chunk") {
  CHECK(every_worker("interleaved", {2, 2, 4}) ==
        "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3\n"
        "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3\n");
  // As many micro-batches as GPUs: the first worker has no pairs at all.
  CHECK(every_worker("interleaved", {2, 2, 2}) ==
        "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1\n"
        "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1\n");
  CHECK(drawn("interleaved", {1, 3, 1}, 0) == "0F0 1F0 2F0 2B0 1B0 0B0");
}

TEST_CASE("Schedule interleaved-zb: one warm-up forward a worker, weight gradients w behind") {
  CHECK(every_worker("interleaved-zb", {2, 2, 2}) ==
        "0F0 0F1 2F0 2F1 2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1\n"
        "1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1\n");
  CHECK(every_worker("interleaved-zb", {2, 2, 4}) ==
        "0F0 0F1 2F0 2F1 2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0 2F2 0I1 0W1 2F3 2I2 2W2 2I3 2W3 0I2 0W2 0I3 0W3\n"
        "1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 1F3 1I1 1W0 3F2 3I2 1W1 3F3 3I3 3W2 1I2 3W3 1I3 1W2 1W3\n");
}

TEST_CASE("Schedule looped-bfs: all micro-batches through a chunk, backwards from the last one") {
  CHECK(every_worker("looped-bfs", {2, 2, 3}) ==
        "0F0 0F1 0F2 2F0 2F1 2F2 2B2 2B1 2B0 0B2 0B1 0B0\n"
        "1F0 1F1 1F2 3F0 3F1 3F2 3B2 3B1 3B0 1B2 1B1 1B0\n");
}

TEST_CASE("Schedule zb-h1: stage s is s weight gradients behind") {
  CHECK(every_worker("zb-h1", {3, 1, 4}) ==
        "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3\n"
        "1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3\n"
        "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3\n");
}

TEST_CASE("Schedule zb-h2: twice the warm-up, twice the delay") {
  CHECK(every_worker("zb-h2", {2, 1, 4}) ==
        "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3\n"
        "1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3\n");
  CHECK(find_schedule("zb-h2")->steps_overlap);
}

TEST_CASE("Schedule zb-v: down the workers and up again") {
  CHECK(every_worker("zb-v", {2, 2, 4}) ==
        "0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 0W2 0I3 0W3\n"
        "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 1W2 2W3 1W3\n");
  // Fewer micro-batches than 2P-1: the order for 5 without 2, 3 and 4.
  CHECK(every_worker("zb-v", {3, 2, 2}) ==
        "0F0 0F1 5F0 5I0 5W0 5F1 5I1 5W1 0I0 0W0 0I1 0W1\n"
        "1F0 1F1 4F0 4F1 4I0 4W0 4I1 4W1 1I0 1W0 1I1 1W1\n"
        "2F0 3F0 2F1 3F1 3I0 3W0 2I0 2W0 3I1 3W1 2I1 2W1\n");
}

TEST_CASE("Schedule dualpipe-v: a forward of one chunk with a backward of the other") {
  CHECK(every_worker("dualpipe-v", {2, 2, 4}) ==
        "0F0 0F1 0F2 3F0 3I0 3W0 3F1 (0F3 3B1) (3F2 0B0) 3B2 (3F3 0B1) 3B3 0I2 0W2 0I3 0W3\n"
        "1F0 2F0 1F1 2F1 1F2 2B0 (2F2 1B0) (1F3 2B1) (2F3 1B1) 2B2 1B2 2I3 1I3 2W3 1W3\n");
  CHECK(drawn("dualpipe-v", {1, 2, 2}, 0) == "0F0 1F0 0F1 1B0 (1F1 0B0) 1B1 0I1 0W1");
}

TEST_CASE("Stages in a loop and in a V") {
  // loop 0 1 2 | 3 4 5 | 6 7 8; V: up again in every second chunk.
  const auto stages_of = [](Placement placement, std::int32_t worker) {
    std::string text;
    for (std::int32_t chunk = 0; chunk < 3; ++chunk) {
      const std::int32_t stage = stage_of_chunk(placement, 3, worker, chunk);
      CHECK(worker_of_stage(placement, 3, stage) == worker);
      text += std::to_string(stage) + " ";
    }
    return text;
  };
  CHECK(stages_of(Placement::loop, 0) == "0 3 6 ");
  CHECK(stages_of(Placement::loop, 2) == "2 5 8 ");
  CHECK(stages_of(Placement::v, 0) == "0 5 6 ");
  CHECK(stages_of(Placement::v, 1) == "1 4 7 ");
  CHECK(stages_of(Placement::v, 2) == "2 3 8 ");
}

TEST_CASE("Numbers of micro-batches that a schedule refuses: both numbers and the rule") {
  CHECK(refusal("interleaved", {4, 2, 8}) == "");
  for (const std::int32_t accepted : {1, 2, 3, 5, 6, 7, 10, 12, 15, 16})
    CHECK(refusal("interleaved", {4, 2, accepted}) == "");
  CHECK(refusal("interleaved", {6, 2, 3}) == "");
  CHECK(refusal("interleaved", {4, 2, 9}) ==
        "9 micro-batches on 4 GPUs, 2 groups | a multiple of the number of groups, which is M / P rounded down (equal "
        "groups go through "
        "a chunk before the next chunk)");
  CHECK(refusal("interleaved", {4, 2, 13}).starts_with("13 micro-batches on 4 GPUs, 3 groups | a multiple"));
  CHECK(refusal("interleaved-zb", {4, 2, 9}).starts_with("9 micro-batches on 4 GPUs, 2 groups | a multiple"));
  for (const std::int32_t accepted : {3, 4, 5, 10}) CHECK(refusal("interleaved-zb", {4, 2, accepted}) == "");
  CHECK(refusal("interleaved-zb", {4, 1, 6}) == "");
  CHECK(refusal("interleaved-zb", {4, 2, 6})
            .starts_with("6 micro-batches on 4 GPUs, groups of 6 | groups of at most one"));
  CHECK(refusal("interleaved-zb", {4, 2, 12}) == "");
  CHECK(refusal("dualpipe-v", {4, 2, 8}) == "");
  CHECK(refusal("dualpipe-v", {4, 2, 7}) == "7 micro-batches for 8 stages | at least as many micro-batches as stages");
  CHECK(refusal("zb-v", {4, 2, 1}) == "");
}

TEST_CASE("Every schedule has a name of its own, a source, closed forms and chunks") {
  for (const Schedule& s : schedules()) {
    INFO(s.name);
    CHECK(find_schedule(s.name) == &s);
    CHECK((!s.source.empty() && !s.summary.empty() && !s.bubble.empty() && !s.memory.empty()));
    CHECK((1 <= s.least_chunks && s.least_chunks <= s.default_chunks && s.default_chunks <= s.most_chunks));
    bool splits = false, alike = true;
    const PipelineOrder order = make_order(s, {4, s.default_chunks, 8});
    for (std::size_t w = 0; w < order.workers.size(); ++w) {
      alike = alike && order.workers[w].size() == order.workers[0].size();
      for (std::size_t i = 0; i < order.workers[w].size(); ++i) {
        const Operation& o = order.workers[w][i];
        splits = splits || o.kind == OperationKind::backward_weight;
        CHECK(worker_of_stage(s.placement, 4, o.stage) == static_cast<std::int32_t>(w));
        alike = alike && i < order.workers[0].size() && o.kind == order.workers[0][i].kind &&
                o.microbatch == order.workers[0][i].microbatch;
      }
    }
    CHECK(splits == s.splits_backward);
    if (s.same_on_every_worker) CHECK(alike);
  }
  CHECK(find_schedule("pipedream") == nullptr);
}

TEST_CASE("Names of actions as PyTorch writes them") {
  CHECK(action_name(OperationKind::forward, 0, 3) == "0F3");
  CHECK(action_name(OperationKind::backward, 1, 0) == "1B0");
  CHECK(action_name(OperationKind::backward_input, 12, 10) == "12I10");
  CHECK(action_name(OperationKind::backward_weight, 2, 1) == "2W1");
  CHECK(action_name(OperationKind::send_forward, 2, 1) == "2SEND_F1");
  CHECK(action_name(OperationKind::receive_forward, 3, 1) == "3RECV_F1");
  CHECK(action_name(OperationKind::send_backward, 3, 1) == "3SEND_B1");
  CHECK(action_name(OperationKind::receive_backward, 2, 0) == "2RECV_B0");
}

}  // namespace
}  // namespace pdl
