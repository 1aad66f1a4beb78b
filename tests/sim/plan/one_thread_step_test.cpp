#include "sim/plan/plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// The tasks of one host in program order, as text.
std::string program(const Plan& plan, std::uint32_t host) {
  std::string text;
  for (const Task& task : plan.graph.tasks) {
    if (task.host != host) continue;
    text += (text.empty() ? "" : ", ") + task_name(task.kind, task.stage, task.microbatch, plan.graph.hosts == 1);
  }
  return text;
}

}  // namespace

TEST_CASE("one thread for two GPUs: options A and B of the course") {
  CHECK(program(make_plan(spec("--gpus 2 --microbatches 2 --depth 2 --schedule naive --workers one")), 0) ==
        "0F0, send 0F0, receive 1F0, 1F0, 1B0, send 1B0, receive 0B0, 0B0, "
        "0F1, send 0F1, receive 1F1, 1F1, 1B1, send 1B1, receive 0B1, 0B1, optimizer 0, optimizer 1");
  CHECK(program(make_plan(spec("--gpus 2 --microbatches 2 --depth 2 --schedule gpipe --workers one")), 0) ==
        "0F0, send 0F0, receive 1F0, 1F0, 0F1, send 0F1, receive 1F1, 1F1, "
        "1B0, send 1B0, receive 0B0, 0B0, 1B1, send 1B1, receive 0B1, 0B1, optimizer 0, optimizer 1");
}

TEST_CASE("transfers carry rows x width x 4 bytes, one per boundary, micro-batch and direction") {
  const Plan plan = make_plan(spec("--gpus 5 --depth 20 --dim 8192 --batch 2048 --microbatches 1 --strategy mp"));
  std::int64_t sends = 0, bytes = 0;
  for (const Task& task : plan.graph.tasks) {
    if (task.kind != TaskKind::send_forward) continue;
    ++sends;
    bytes += plan.graph.works[task.work].bytes;
  }
  CHECK(sends == 4);
  CHECK(bytes == 4 * 2048ll * 8192 * 4);
}
