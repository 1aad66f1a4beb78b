#include "sim/plan/backward_parts.hpp"

#include <string>

#include "tests/sim/plan/drawn_step.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/tiny_transformer.hpp"

using namespace pdl;

namespace {

/// "loss", "B 3", "B 1-2", "R 1, B 1", one after another.
std::string drawn(const std::vector<bool>& run_again, std::int32_t first, std::int32_t count, bool loss) {
  std::string text;
  for (const BackwardPart& part : backward_parts(run_again, first, count, loss)) {
    const std::string layer = std::to_string(part.first_layer);
    text += std::string(text.empty() ? "" : "; ") + (part.loss ? "loss " : "") +
            (part.runs_again ? "R " + layer + " " : "") + (part.layer_count > 0 ? "B " + layer : "");
    if (part.layer_count > 1) text += "-" + std::to_string(part.first_layer + part.layer_count - 1);
  }
  return text;
}

/// Kinds of tasks and the layers of each, in order: "F 0-2 R 1 B 1 ...".
std::string layers_of_tasks(const RunSpec& run) {
  const Plan plan = make_plan(run);
  std::string text;
  for (const Task& task : plan.graph.tasks) {
    const Work& work = plan.graph.works[task.work];
    if (!is_compute(task.kind)) continue;
    text += std::string(text.empty() ? "" : " ") + (task.kind == TaskKind::forward     ? "F"
                                                    : task.kind == TaskKind::recompute ? "R"
                                                    : work.loss                        ? "loss B"
                                                                                       : "B");
    for (std::int32_t l = 0; l < work.layer_count; ++l) text += std::to_string(work.first_layer + l);
  }
  return text;
}

}  // namespace

TEST_CASE("a backward is cut where layers are run again") {
  CHECK(drawn({false, true, true, false}, 0, 4, true) == "loss B 3; R 2 B 2; R 1 B 1; B 0");
  CHECK(drawn({false, false, true, false, false}, 0, 5, true) == "loss B 3-4; R 2 B 2; B 0-1");
  CHECK(drawn({true, true}, 0, 2, true) == "loss ; R 1 B 1; R 0 B 0");
  CHECK(drawn({false, true, false}, 0, 2, false) == "R 1 B 1; B 0");
  CHECK(drawn({false, false}, 0, 2, true) == "loss B 0-1");
}

TEST_CASE("of a transformer the blocks are run again, of other models each layer that takes no tokens") {
  const std::string one = "--strategy single --workers one --gpus 1 --batch 2 --recompute 1";
  CHECK(layers_of_tasks(tiny_transformer(one, 2)) == "F0123 loss B3 R2 B2 R1 B1 B0");
  CHECK(layers_of_tasks(spec(one + " --depth 2")) == "F01 loss B R1 B1 R0 B0");
  CHECK(layers_of_tasks(tiny_transformer("--strategy ddp --gpus 1 --batch 2 --recompute 1", 1)) ==
        "F012 loss B2 R1 B1 B0");
}

TEST_CASE("a step whose layers are run again is longer by their forwards") {
  // A layer: forward 1, backward 2.    F F F R2 B2 B2 R1 B1 B1 R0 B0 B0
  const std::string one = "--strategy single --workers one --gpus 1 --depth 3 --tf 3 --tb 6 ";
  CHECK(tasks_of(one + "--recompute 1", 0) == "F0 | B0 | R0 | B0 | R0 | B0 | R0 | B0 | optimizer");
  CHECK(step_ms(one) == 9);
  CHECK(step_ms(one + "--recompute 1") == 12);
  CHECK(step_ms(one + "--recompute 1 --microbatches 2 --accum 2") == 4 * 12);
}

TEST_CASE("ddp: buckets keep their order, and are full later") {
  // A layer: forward 1, backward 2, exchange 1.    F F F F R3 B3 B3 R2 B2 B2 R1 B1 B1 R0 B0 B0
  //                                                               3        2        1        0
  const std::string flags = "--strategy ddp --gpus 2 --depth 4 --tf 4 --tb 8 --recompute 1 ";
  CHECK(tasks_of(flags + "--dim 4096 --batch 8", 1) ==
        "F0 | B0 | R0 | B0 | bucket in 0 | all-reduce 0 | R0 | B0 | bucket in 1 | all-reduce 1 | R0 | B0 | bucket in 2 "
        "| all-reduce 2 | R0 | B0 | bucket in 3 | all-reduce 3 | bucket out 0 | bucket out 1 | bucket out 2 | bucket "
        "out 3 | optimizer");
  CHECK(step_ms(flags + "--tcomm 4") == 17);
  // Exchange 4 a layer: from 7 to 11, then 2, 1, 0 to 23.
  CHECK(step_ms(flags + "--tcomm 16") == 23);
  CHECK(step_ms(flags + "--tcomm 16" + kOneBucket) == 16 + 16);
  CHECK(step_ms(flags + "--tcomm 4 --accum 2 --no-sync 1") == 16 + 17);
}
