// The known right answers about schedules, through the whole prediction: one test case a row, named for it.
#include <algorithm>
#include <map>

#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/metrics.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

RunResult predicted(const std::string& flags) {
  return predict(spec(flags), nullptr);
}
double step_ms(const std::string& flags) {
  return predicted(flags).step_time.median_ms;
}
double bubble(const std::string& flags) {
  return compute_metrics(predicted(flags)).bubble_fraction;
}

std::vector<std::int32_t> live_counts(const RunResult& run) {
  std::vector<std::int32_t> counts;
  for (const LiveActivations& live : run.live) counts.push_back(live.count);
  return counts;
}

/// When the last operation of each GPU ends, in ms.
std::vector<double> ends_ms(const RunResult& run) {
  std::vector<double> ends(static_cast<std::size_t>(run.spec.gpus), 0);
  for (const Span& span : run.timeline.spans) {
    if (!is_compute(span.kind)) continue;
    double& end = ends.at(static_cast<std::size_t>(span.worker));
    end = std::max(end, static_cast<double>(span.end_ns) / 1e6);
  }
  return ends;
}

/// Forwards of each GPU before its first pair of a forward and a backward.
std::vector<int> warm_up_forwards(const RunResult& run) {
  std::vector<int> counts;
  for (const GpuMetrics& gpu : compute_metrics(run).gpus) {
    int forwards = 0;
    for (const std::string& name : gpu.ops) {
      if (name.find('F') == std::string::npos) break;
      ++forwards;
    }
    counts.push_back(forwards - 1);
  }
  return counts;
}

std::string refusal(const std::string& flags) {
  try {
    predicted(flags);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<std::int64_t> layers_of_stages(const RunResult& run) {
  std::vector<std::int64_t> layers;
  for (const Stage& stage : run.stages) layers.push_back(stage.layer_count);
  return layers;
}

}  // namespace

TEST_CASE("fewer micro-batches than stages") {
  for (const std::string schedule : {"1f1b", "gpipe"}) {
    const auto flags = [&](int m) {
      return "--gpus 8 --microbatches " + std::to_string(m) + " --tf 1 --tb 2 --tcomm 0 --schedule " + schedule;
    };
    INFO(schedule);
    CHECK(step_ms(flags(1)) == 24);
    CHECK(step_ms(flags(2)) == 27);
    CHECK(step_ms(flags(4)) == 33);
    CHECK(step_ms(flags(7)) == 42);
    CHECK(step_ms(flags(8)) == 45);
    CHECK(bubble(flags(1)) == Approx(.8750).margin(5e-5));
    CHECK(bubble(flags(2)) == Approx(.7778).margin(5e-5));
    CHECK(bubble(flags(4)) == Approx(.6364).margin(5e-5));
    CHECK(bubble(flags(7)) == Approx(.5000).margin(5e-5));
    CHECK(bubble(flags(8)) == Approx(.4667).margin(5e-5));
  }
}

TEST_CASE("one micro-batch") {
  for (const std::string schedule : {"naive", "gpipe", "1f1b"}) {
    INFO(schedule);
    const std::string flags = "--gpus 4 --microbatches 1 --tf 1 --tb 2 --schedule " + schedule;
    CHECK(step_ms(flags) == 12);
    CHECK(bubble(flags) == .75);
  }
  for (const std::string schedule : {"zb-h1", "zb-h2"}) {
    INFO(schedule);
    CHECK(ends_ms(predicted("--gpus 4 --microbatches 1 --tf 1 --tb 1 --tw 1 --schedule " + schedule)) ==
          std::vector<double>{9, 8, 7, 6});
  }
}

TEST_CASE("as many micro-batches as GPUs, also under rendezvous") {
  for (const std::string schedule : {"1f1b", "gpipe"}) {
    for (const std::string p2p : {"eager", "rendezvous"}) {
      INFO(schedule << " " << p2p);
      const auto flags = [&](int n) {
        return "--gpus " + std::to_string(n) + " --microbatches " + std::to_string(n) + " --tf 1 --tb 2 --p2p " + p2p +
               " --schedule " + schedule;
      };
      CHECK(step_ms(flags(2)) == 9);
      CHECK(step_ms(flags(4)) == 21);
      CHECK(step_ms(flags(8)) == 45);
    }
  }
}

TEST_CASE("a false claim: 1F1B is not faster than GPipe, it needs less memory") {
  const RunResult gpipe = predicted("--gpus 8 --microbatches 32 --tf 1 --tb 1 --schedule gpipe");
  const RunResult one_f_one_b = predicted("--gpus 8 --microbatches 32 --tf 1 --tb 1 --schedule 1f1b");
  CHECK(gpipe.step_time.median_ms == 78);
  CHECK(one_f_one_b.step_time.median_ms == 78);
  CHECK(compute_metrics(gpipe).bubble_fraction == Approx(.1795).margin(5e-5));
  CHECK(compute_metrics(one_f_one_b).bubble_fraction == Approx(.1795).margin(5e-5));
  CHECK(live_counts(gpipe) == std::vector<std::int32_t>(8, 32));
  CHECK(live_counts(one_f_one_b) == std::vector<std::int32_t>{8, 7, 6, 5, 4, 3, 2, 1});
}

TEST_CASE("interleaved") {
  const RunResult run = predicted("--schedule interleaved --chunks 2 --gpus 4 --microbatches 8 --tf 0.5 --tb 1");
  CHECK(warm_up_forwards(run) == std::vector<int>{10, 8, 6, 4});
  CHECK(run.step_time.median_ms == 28.5);
  CHECK(compute_metrics(run).bubble_fraction == Approx(.1579).margin(5e-5));
  CHECK(live_counts(run) == std::vector<std::int32_t>{11, 9, 7, 5});
}

TEST_CASE("costs are those of a stage, however many a GPU has") {
  // The same shape as above, every stage twice as long.
  const RunResult run = predicted("--schedule interleaved --chunks 2 --gpus 4 --microbatches 8 --tf 1 --tb 2");
  CHECK(run.step_time.median_ms == 57);
  CHECK(compute_metrics(run).bubble_fraction == Approx(.1579).margin(5e-5));
  for (const Schedule& s : schedules()) {
    INFO(s.name);
    const RunResult all = predicted("--gpus 2 --microbatches 4 --tf 1 --tb 2 --schedule " + std::string(s.name));
    for (const Span& span : all.timeline.spans) {
      if (span.kind == TaskKind::forward) CHECK(span.end_ns - span.start_ns == 1'000'000);
      if (span.kind == TaskKind::backward) CHECK(span.end_ns - span.start_ns == 2'000'000);
    }
    for (const GpuMetrics& gpu : compute_metrics(all).gpus) CHECK(gpu.useful_ns == all.spec.chunks * 4 * 3'000'000);
  }
}

TEST_CASE("interleaved on 2 GPUs: messages are matched by stage, micro-batch and direction, not by peer") {
  // Stage 0 -> 1 and 2 -> 3 go from GPU 0 to GPU 1, stage 1 -> 2 from GPU 1 to GPU 0.
  for (const std::string p2p : {"eager", "rendezvous"}) {
    INFO(p2p);
    CHECK(step_ms("--schedule interleaved --chunks 2 --gpus 2 --microbatches 4 --tf 0.5 --tb 1 --p2p " + p2p) == 13.5);
  }
}

TEST_CASE(
    "interleaved with a number of micro-batches that is no multiple of the GPUs: equal groups, as PyTorch makes them") {
  const auto flags = [](int gpus, int microbatches) {
    return "--schedule interleaved --chunks 2 --tf 1 --tb 2 --gpus " + std::to_string(gpus) + " --microbatches " +
           std::to_string(microbatches);
  };
  CHECK(step_ms(flags(4, 10)) == 69);  // 2 groups of 5; 10 x 6 ms of work, (P-1) (F+B) / V of bubble
  CHECK(step_ms(flags(4, 3)) == 30);  // 1 group of 3: a micro-batch through 8 stages and back, and two more on the last
  CHECK(step_ms(flags(4, 6)) == 45);  // 1 group of 6
  CHECK(predicted(flags(6, 3)).step_time.median_ms == 42);  // 1 group of 3

  for (const std::string schedule : {"interleaved", "interleaved-zb"}) {
    const std::string nine = refusal("--schedule " + schedule + " --gpus 4 --chunks 2 --microbatches 9 --tf 1 --tb 2");
    CHECK_THAT(nine, ContainsSubstring("--microbatches: found 9 micro-batches on 4 GPUs, 2 groups"));
    CHECK_THAT(nine, ContainsSubstring("expected a multiple of the number of groups, which is M / P rounded down"));
  }
}

TEST_CASE("a link carries one message after another") {
  // 2 GPUs: F0 sent from 1 to 4, F1 to 7 ... the last of 100 arrives at 301, its F ends at 302; and the same on the way
  // back.
  CHECK(step_ms("--gpus 2 --microbatches 100 --schedule gpipe --tf 1 --tb 1 --tcomm 3") == 604);
  CHECK(step_ms("--gpus 2 --microbatches 100 --schedule gpipe --tf 3 --tb 3 --tcomm 3") ==
        612);  // none queues: 101 x 6 + 2 x 3
  // Three GPUs: the two links carry at the same time.
  CHECK(step_ms("--gpus 3 --microbatches 100 --schedule gpipe --tf 1 --tb 1 --tcomm 3") == 604 + 2 * 4);
  // Two chunks on 2 GPUs: stages 0 -> 1 and 2 -> 3 have the link from GPU 0 to GPU 1 in common, and the gradient of
  // stage 2 takes it, too; 1 -> 2 has the other.
  for (const auto& [schedule, gpus] :
       {std::pair{"interleaved", 2}, {"interleaved", 3}, {"looped-bfs", 2}, {"zb-v", 2}, {"zb-v", 3}, {"1f1b", 4}}) {
    INFO(schedule << " on " << gpus);
    const RunResult run = predicted(std::string("--microbatches 6 --tf 1 --tb 1 --tcomm 3 --schedule ") + schedule +
                                    " --gpus " + std::to_string(gpus));
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::pair<std::int64_t, std::int64_t>>> by_link;
    for (const Span& span : run.timeline.spans) {
      if (!is_send(span.kind)) continue;
      const auto to = static_cast<std::size_t>(other_stage(span.kind, span.stage));
      by_link[{span.worker, run.stages.at(to).worker}].emplace_back(span.start_ns, span.end_ns);
    }
    CHECK(by_link.size() >= 2);
    for (auto& [link, messages] : by_link) {
      std::sort(messages.begin(), messages.end());
      for (std::size_t i = 1; i < messages.size(); ++i) CHECK(messages[i - 1].second <= messages[i].first);
      for (const auto& [start_ns, end_ns] : messages) CHECK(end_ns - start_ns == 3'000'000);
    }
  }
}

TEST_CASE("stages of unequal times: the slowest is the cycle") {
  // Times of a stage of eight, ms, forward and backward: 3.153, six of 3.150, 3.901.
  const auto flags = [](int microbatches) {
    return "--gpus 8 --schedule 1f1b --tcomm 0 --tf 1.051,1.050,1.050,1.050,1.050,1.050,1.050,1.300 "
           "--tb 2.102,2.100,2.100,2.100,2.100,2.100,2.100,2.601 --microbatches " +
           std::to_string(microbatches);
  };
  CHECK((step_ms(flags(200)) - step_ms(flags(100))) / 100 == Approx(3.901).epsilon(1e-12));
  const double mean = (3.153 + 6 * 3.150 + 3.901) / 8;
  const RunResult run = predicted(flags(100));
  double busy_ms = 0;
  for (const GpuMetrics& gpu : compute_metrics(run).gpus) busy_ms += static_cast<double>(gpu.useful_ns) / 1e6 / 8 / 100;
  CHECK(busy_ms == Approx(mean).epsilon(1e-12));
  CHECK(busy_ms / 3.901 == Approx(.832).margin(5e-4));

  // A list is by stage, not by GPU: under zb-v GPU 0 has stages 0 and 3.
  const RunResult v = predicted("--gpus 2 --schedule zb-v --microbatches 1 --tf 1,2,3,4 --tb 10,20,30,40 --tw 5");
  std::map<std::pair<TaskKind, std::int32_t>, std::int64_t> ms;
  for (const Span& span : v.timeline.spans) ms[{span.kind, span.stage}] = (span.end_ns - span.start_ns) / 1'000'000;
  for (std::int32_t stage = 0; stage < 4; ++stage) {
    CHECK(ms.at({TaskKind::forward, stage}) == stage + 1);
    CHECK(ms.at({TaskKind::backward_input, stage}) == 10 * (stage + 1));
    CHECK(ms.at({TaskKind::backward_weight, stage}) == 5);
  }
  // Replicas of a pipeline have the stages' times each.
  CHECK(step_ms("--pp 2 --dp 2 --microbatches 1 --tf 1,2 --tb 3,4") == 10);
}

TEST_CASE("depth not divisible by the stages: no layer and no parameter is lost") {
  const auto parameters = [](const std::string& flags) { return compute_metrics(predicted(flags)).parameters; };
  const std::string costs = " --dim 512 --tf 1 --tb 2";
  const RunResult four = predicted("--depth 30 --gpus 4 --schedule 1f1b" + costs);
  CHECK(layers_of_stages(four) == std::vector<std::int64_t>{8, 8, 7, 7});
  CHECK(compute_metrics(four).parameters == parameters("--depth 30 --gpus 1" + costs));

  const RunResult eight = predicted("--depth 40 --gpus 8 --chunks 2 --schedule interleaved" + costs);
  CHECK(layers_of_stages(eight) == std::vector<std::int64_t>{3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2});
  CHECK(compute_metrics(eight).parameters == parameters("--depth 40 --gpus 1" + costs));

  const RunResult sixteen =
      predicted("--depth 80 --gpus 16 --chunks 2 --microbatches 16 --schedule interleaved" + costs);
  std::int64_t layers = 0;
  for (const std::int64_t count : layers_of_stages(sixteen)) layers += count;
  CHECK(sixteen.stages.size() == 32);
  CHECK(layers == 80);
  CHECK(compute_metrics(sixteen).parameters == parameters("--depth 80 --gpus 1" + costs));
}

TEST_CASE("one GPU: M (tf + tb) for each of its stages and no bubble, every strategy and schedule") {
  std::vector<std::string> ways = {"--strategy single", "--strategy mp", "--strategy pp"};
  for (const Schedule& s : schedules()) ways.push_back("--strategy pp --schedule " + std::string(s.name));
  for (const std::string& way : ways) {
    INFO(way);
    const RunResult run = predicted("--gpus 1 --microbatches 6 --tf 1 --tb 2 " + way);
    CHECK(run.step_time.median_ms == 18 * static_cast<double>(run.spec.chunks));
    CHECK(compute_metrics(run).bubble_fraction == 0);
    CHECK(compute_metrics(run).transfer_count == 0);
  }
}

TEST_CASE("nonsense of schedules is refused by name") {
  CHECK(refusal("--gpus 0").starts_with("--gpus: found 0"));
  CHECK(refusal("--gpus -1").starts_with("--gpus: found -1"));
  CHECK(refusal("--microbatches 0").starts_with("--microbatches: found 0"));
  CHECK(refusal("--chunks 0 --schedule interleaved --gpus 2").starts_with("--chunks: found 0"));
  CHECK(refusal("--chunks 3 --schedule zb-v --gpus 2").starts_with("--chunks: found 3"));
  CHECK(refusal("--chunks 2 --schedule 1f1b --gpus 2").starts_with("--chunks: found 2"));
  CHECK_THAT(refusal("--bucket-mb 0"), ContainsSubstring("--bucket-mb"));
  CHECK_THAT(refusal("--accum 0"), ContainsSubstring("--accum"));
  for (const std::string flags :
       {"--gpus 9 --depth 8 --schedule 1f1b --tf 1 --tb 2", "--gpus 4 --depth 7 --schedule zb-v --tf 1 --tb 2",
        "--gpus 4 --depth 11 --schedule interleaved --chunks 3 --tf 1 --tb 2"}) {
    INFO(flags);
    const std::string message = refusal(flags);
    CHECK_THAT(message, ContainsSubstring("stage"));
    CHECK_THAT(message, ContainsSubstring("layer"));
  }
}

TEST_CASE("start of fill: F0 starts on stage s at s tf") {
  for (const Schedule& s : schedules()) {
    INFO(s.name);
    const RunResult run =
        predicted("--tcomm 0 --gpus 4 --microbatches 8 --tf 1 --tb 2 --schedule " + std::string(s.name));
    int first_forwards = 0;
    for (const Span& span : run.timeline.spans) {
      if (span.kind != TaskKind::forward || span.microbatch != 0 || span.stage >= 4) continue;
      CHECK(span.start_ns == span.stage * 1'000'000);
      ++first_forwards;
    }
    CHECK(first_forwards == 4);
  }
}

TEST_CASE("communication counts: with it 1F1B is slower than GPipe") {
  const std::string costs = " --gpus 8 --microbatches 24 --tf 18.522 --tb 18.086 --tw 9.337 --tcomm 0.601";
  CHECK(step_ms("--schedule 1f1b" + costs) == Approx(1456.749).margin(5e-4));
  CHECK(step_ms("--schedule gpipe" + costs) == Approx(1432.709).margin(5e-4));
}

TEST_CASE("blocking order: a deadlock under rendezvous, complete under eager") {
  const TemporaryFolder folder;
  const std::string path = folder.write("blocking.csv",
                                        "2SEND_F1,0F2,0SEND_F2,2RECV_B0,2B0\n"
                                        "3RECV_F1,3SEND_B0,3F1,3B1,1RECV_F2,3SEND_B1,1F2\n");
  CHECK_NOTHROW(predicted("--tf 1 --tb 2 --p2p eager --schedule " + path));
  try {
    predicted("--tf 1 --tb 2 --p2p rendezvous --schedule " + path);
    FAIL("no deadlock");
  } catch (const CannotRun& deadlock) {
    CHECK_THAT(deadlock.what(), ContainsSubstring("deadlock"));
    CHECK_THAT(deadlock.what(), ContainsSubstring("0SEND_F2"));
    CHECK_THAT(deadlock.what(), ContainsSubstring("3SEND_B0"));
  }
}

TEST_CASE("a deadlock is found, also among 1,000 GPUs") {
  // GPU 0 wants the backward of micro-batch 0 before it does F1; the last GPU wants F1 before it does that backward.
  std::string text;
  for (int gpu = 0; gpu < 1000; ++gpu) {
    const std::string s = std::to_string(gpu);
    text += gpu == 0 ? s + "F0," + s + "B0," + s + "F1," + s + "B1\n" : s + "F0," + s + "F1," + s + "B0," + s + "B1\n";
  }
  const TemporaryFolder folder;
  const std::string path = folder.write("stuck.csv", text);
  CHECK_THROWS_AS(predicted("--depth 1000 --tf 1 --tb 2 --schedule " + path), CannotRun);
  CHECK_THROWS_WITH(predicted("--depth 1000 --tf 1 --tb 2 --schedule " + path), ContainsSubstring("deadlock"));
}
