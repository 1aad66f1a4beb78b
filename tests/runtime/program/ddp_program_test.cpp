#include "runtime/program/ddp_program.hpp"

#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "runtime/comm/process_group.hpp"
#include "runtime/comm/rank_threads.hpp"
#include "runtime/model/initial_values.hpp"
#include "runtime/model/reference_training.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cpu_training.hpp"
#include "tests/support/ranks_in_threads.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr int kSteps = 4;

Plan plan_of(const std::string& flags) {
  return make_plan(spec("--strategy ddp --transport gloo --dim 8 " + flags));
}

/// A learning rate so large that the parameters visibly move in a few steps.
RuntimeOptions cpu_options(int rank, const std::string& optimizer = "sgd") {
  RuntimeOptions options = cpu_training(optimizer, 7);
  options.rank = rank;
  return options;
}

/// What one replica has after its steps.
struct Replica {
  std::vector<at::Tensor> parameters;
  std::vector<double> losses;  // its part of each
  std::vector<bool> skipped;
  std::vector<TaskTimes> times;  // of the last step, where that was recorded
  std::int64_t begin_ns = 0, end_ns = 0;
  double scale = 0;
};

enum class Record { no, last_step };

using OptionsOfRank = std::function<RuntimeOptions(int)>;

/// Replicas are threads here: each has a process group of its own. `watchers`, by rank: of all-reduces, if any.
std::vector<Replica> train(const Plan& plan, int steps, const OptionsOfRank& options_of_rank,
                           Record record = Record::no, const std::vector<AllReduceWatcher*>& watchers = {}) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<Replica> replicas(static_cast<std::size_t>(plan.spec.gpus));
  on_rank_threads(static_cast<int>(replicas.size()), "DDP steps", [&](int rank) {
    Replica& replica = replicas[static_cast<std::size_t>(rank)];
    const RuntimeOptions options = options_of_rank(rank);
    auto program = make_ddp_program(plan, options, store, /*one_host=*/true,
                                    watchers.empty() ? nullptr : watchers[static_cast<std::size_t>(rank)]);
    SpanRecorder recorder(plan.graph, options);
    for (int step = 0; step < steps; ++step) {
      const bool recorded = record == Record::last_step && step + 1 == steps;
      if (recorded) recorder.begin_step();
      replica.begin_ns = steady_now_ns();
      program->step(recorded ? &recorder : nullptr);
      replica.end_ns = steady_now_ns();
      if (recorded) recorder.end_step();
      replica.losses.push_back(program->loss());
      replica.skipped.push_back(program->skipped());
    }
    replica.times = recorder.recorded().times;
    replica.parameters = program->parameters();
    replica.scale = program->loss_scale().value_or(0);
  });
  return replicas;
}

std::vector<Replica> train(const Plan& plan, int steps, const std::string& optimizer = "sgd",
                           Record record = Record::no) {
  return train(plan, steps, [&](int rank) { return cpu_options(rank, optimizer); }, record);
}

double loss_of_batch(const std::vector<Replica>& replicas, std::size_t step) {
  double sum = 0;
  for (const Replica& replica : replicas) sum += replica.losses[step];
  return sum;
}

std::string name_of(const Plan& plan, TaskId task) {
  const Task& t = plan.graph.tasks[task];
  return task_name(t.kind, t.stage, t.microbatch, true, t.part);
}

}  // namespace

#if PDL_GLOO

TEST_CASE("Every replica of DDP trains as one device with the whole batch does", "[runtime][data_parallel]") {
  const std::vector<std::string> programs = {
      "--gpus 1 --depth 3 --batch 6",
      "--gpus 1 --depth 3 --batch 6 --accum 4",
      "--gpus 2 --depth 4 --batch 12",
      "--gpus 2 --depth 4 --batch 12 --accum 4",
      "--gpus 2 --depth 4 --batch 12 --accum 4 --no-sync 1",
      "--gpus 3 --depth 4 --batch 13",  // 5 4 4 samples
      "--gpus 3 --depth 4 --batch 13 --accum 2 --no-sync 1",
      "--gpus 2 --depth 4 --batch 12 --bucket-views 1",
      "--gpus 2 --depth 4 --batch 12 --bucket-views 1 --accum 3",
      "--gpus 3 --depth 5 --batch 13 --bucket-mb 0.0005 --first-bucket-mb 0.0001",  // several buckets
      "--gpus 3 --depth 5 --batch 13 --bucket-mb 0.0005 --first-bucket-mb 0.0001 --bucket-views 1 --accum 2",
      "--gpus 2 --depth 5 --batch 12 --bucket-mb 0.00001 --first-bucket-mb 0.00001",  // a bucket a tensor
      "--gpus 2 --depth 4 --batch 12 --microbatches 3 --accum 2",
  };
  for (const std::string optimizer : {"sgd", "adam"}) {
    for (const std::string& flags : programs) {
      INFO(flags << " --optimizer " << optimizer);
      const Plan plan = plan_of(flags + " --optimizer " + optimizer);
      const std::vector<Replica> replicas = train(plan, kSteps, optimizer);
      const RuntimeOptions options = cpu_options(-1, optimizer);
      const std::vector<at::Tensor> expected = train_reference(plan.spec, options, at::kCPU, kSteps);
      for (const Replica& replica : replicas) {
        const Agreement agreement = compare_parameters(plan.spec, options, at::kCPU, {}, replica.parameters, expected);
        CHECK(agreement.smallest_change > 1e-3);  // else any two would be equal
        CHECK(agreement.relative_difference < 1e-3);
      }
      const std::vector<double> losses = reference_losses(plan.spec, options, at::kCPU, kSteps, {});
      for (std::size_t step = 0; step < losses.size(); ++step) {
        CHECK(loss_of_batch(replicas, step) == Approx(losses[step]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("A recorded step of DDP has a begin and an end of every task, in the order of the plan",
          "[runtime][data_parallel]") {
  const std::vector<std::string> programs = {
      "--gpus 1 --depth 3 --batch 6",
      "--gpus 2 --depth 4 --batch 12",
      "--gpus 2 --depth 5 --batch 12 --bucket-mb 0.0005 --first-bucket-mb 0.0001",
      "--gpus 2 --depth 5 --batch 12 --bucket-mb 0.00001 --first-bucket-mb 0.00001 --accum 2 --delay-ms 1",
      "--gpus 2 --depth 5 --batch 12 --bucket-mb 0.0005 --first-bucket-mb 0.0001 --accum 3 --no-sync 1 --straggler 1:3",
      "--gpus 3 --depth 4 --batch 12 --bucket-mb 0.0005 --first-bucket-mb 0.0001 --bucket-views 1",
      "--gpus 2 --depth 4 --batch 12 --dtype amp-fp16",
  };
  for (const std::string& flags : programs) {
    INFO(flags);
    const Plan plan = plan_of(flags);
    const std::vector<Replica> replicas = train(plan, 3, "sgd", Record::last_step);
    for (int worker = 0; worker < static_cast<int>(plan.spec.gpus); ++worker) {
      const Replica& replica = replicas[static_cast<std::size_t>(worker)];
      std::int64_t done = replica.begin_ns, reduced = replica.begin_ns;
      for (TaskId t = 0; t < plan.graph.tasks.size(); ++t) {
        const Task& task = plan.graph.tasks[t];
        if (task.worker != worker) {
          CHECK(replica.times[t].end_ns == 0);
          continue;
        }
        INFO("worker " << worker << ", task " << t << ", " << name_of(plan, t));
        // Compute and host in one order, all-reduces in another.
        std::int64_t& before = task.kind == TaskKind::all_reduce ? reduced : done;
        CHECK(replica.times[t].start_ns >= before);
        CHECK(replica.times[t].end_ns >= replica.times[t].start_ns);
        if (task.kind == TaskKind::bucket_copy_out) CHECK(replica.times[t].end_ns > replica.times[t].start_ns);
        CHECK(replica.times[t].end_ns <= replica.end_ns);
        before = replica.times[t].end_ns;
        for (const TaskId after : plan.graph.edges.after(t)) {
          if (plan.graph.tasks[after].worker != worker) continue;
          INFO("before " << name_of(plan, after));
          CHECK(replica.times[t].end_ns <= replica.times[after].start_ns);
        }
      }
    }
  }
}

TEST_CASE("Recording does not change what DDP trains", "[runtime][data_parallel]") {
  const Plan plan = plan_of("--gpus 2 --depth 4 --batch 10 --accum 2 --bucket-mb 0.0005");
  const std::vector<Replica> plain = train(plan, 3), recorded = train(plan, 3, "sgd", Record::last_step);
  for (std::size_t i = 0; i < plain[0].parameters.size(); ++i) {
    CHECK(at::equal(plain[0].parameters[i], recorded[0].parameters[i]));
    CHECK(at::equal(plain[0].parameters[i], plain[1].parameters[i]));  // and the replicas are equal, bit for bit
  }
}

TEST_CASE("A straggler and a delay lengthen the step by what they say", "[runtime][data_parallel]") {
  const auto step_ms = [](const std::string& flags) {
    const std::vector<Replica> replicas = train(plan_of("--gpus 2 --depth 2 --batch 4 " + flags), 3);
    double least = std::numeric_limits<double>::infinity();
    for (const Replica& replica : replicas)
      least = std::min(least, static_cast<double>(replica.end_ns - replica.begin_ns) / 1e6);
    return least;
  };
  CHECK(step_ms("--accum 2 --delay-ms 60") >= 120);
  // Replica 0 waits for replica 1; without it no step of this size takes so long.
  CHECK(step_ms("--straggler 1:150") < 400);
  const std::vector<Replica> late =
      train(plan_of("--gpus 2 --depth 2 --batch 4 --straggler 1:150"), 3, "sgd", Record::last_step);
  CHECK(late[0].end_ns - late[1].begin_ns >= 140'000'000);
}

TEST_CASE("Losses of mixed precision follow fp32", "[runtime][data_parallel]") {
  for (const std::string dtype : {"amp-bf16", "amp-fp16"}) {
    for (const std::string flags :
         {"--gpus 1 --batch 16", "--gpus 2 --batch 16 --accum 2", "--gpus 2 --batch 16 --accum 2 --no-sync 1"}) {
      INFO(dtype << " " << flags);
      const Plan plan = make_plan(spec("--strategy ddp --transport gloo --dim 32 --depth 3 --dtype " + dtype +
                                       (dtype == "amp-fp16" ? " --loss-scale 1024 " : " ") + flags));
      constexpr int kMany = 12;
      const double rate = clear_learning_rate(plan.spec, cpu_options(-1), at::kCPU, kMany);
      const auto options = [&](int rank, std::uint64_t seed = 7) {
        RuntimeOptions own = cpu_options(rank);
        own.learning_rate = rate;
        own.seed = seed;
        return own;
      };
      const std::vector<double> expected = reference_losses(plan.spec, options(-1), at::kCPU, kMany, {});
      const auto compare = [&](const OptionsOfRank& of_rank) {
        const std::vector<Replica> replicas = train(plan, kMany, of_rank);
        std::vector<double> losses;
        for (std::size_t step = 0; step < kMany; ++step) losses.push_back(loss_of_batch(replicas, step));
        return compare_losses(losses, expected);
      };
      const LossAgreement right = compare([&](int rank) { return options(rank); });
      CHECK(right.equal);
      CHECK(right.relative_difference > 1e-6);  // half precision it was
      CHECK(right.fall > 0.01);                 // and something was learned
      const LossAgreement no_updates = compare([&](int rank) {
        RuntimeOptions own = options(rank);
        own.learning_rate = 0;
        return own;
      });
      CHECK_FALSE(no_updates.equal);
      CHECK(no_updates.relative_difference == Approx(1).epsilon(0.05));
      CHECK_FALSE(compare([&](int rank) {
                    RuntimeOptions own = options(rank);
                    own.learning_rate = rate / 2;
                    return own;
                  }).equal);
      if (plan.spec.gpus > 1)
        CHECK_FALSE(compare([&](int rank) { return options(rank, static_cast<std::uint64_t>(7 + rank)); }).equal);
    }
  }
}

namespace {

class Counter : public AllReduceWatcher {
 public:
  void before_all_reduce() override { ++calls; }
  c10::intrusive_ptr<c10d::Work> after_all_reduce(c10::intrusive_ptr<c10d::Work> work) override { return work; }
  int calls = 0;
};

}  // namespace

TEST_CASE("All-reduces are called as often as the plan has them: in every round, or under no_sync in the last",
          "[runtime][data_parallel]") {
  struct Row {
    std::string flags;
    int all_reduces;  // of a replica in a step
  };
  const std::string buckets =
      "--gpus 2 --depth 5 --batch 12 --bucket-mb 0.0005 --first-bucket-mb 0.0001 ";  // 3 of them
  const std::vector<Row> table = {
      {"--gpus 2 --depth 4 --batch 12", 1},
      {"--gpus 2 --depth 4 --batch 12 --accum 4", 4},
      {"--gpus 2 --depth 4 --batch 12 --accum 4 --no-sync 1", 1},
      {buckets + "--accum 3", 9},
      {buckets + "--accum 3 --no-sync 1", 3},
      {buckets + "--accum 3 --no-sync 1 --bucket-views 1", 3},
      {"--gpus 2 --depth 4 --batch 12 --accum 2 --microbatches 3", 2},
      {"--gpus 2 --depth 4 --batch 12 --accum 2 --microbatches 3 --no-sync 1", 1},
  };
  for (const Row& row : table) {
    INFO(row.flags);
    const Plan plan = plan_of(row.flags);
    const auto planned = std::count_if(plan.graph.tasks.begin(), plan.graph.tasks.end(), [](const Task& task) {
      return task.kind == TaskKind::all_reduce && task.worker == 1;
    });
    CHECK(planned == row.all_reduces);
    Counter counters[2];
    train(plan, 2, [](int rank) { return cpu_options(rank); }, Record::last_step, {&counters[0], &counters[1]});
    for (const Counter& counter : counters) CHECK(counter.calls == 2 * row.all_reduces);
  }
}

TEST_CASE("A step with infinite gradients is skipped by all replicas", "[runtime][data_parallel]") {
  // The gradient of the output, about 2 / (4 x 8), times 2^24 is beyond fp16's 65504 and times 2^16 is not.
  const Plan plan = plan_of("--gpus 2 --depth 2 --batch 8 --dtype amp-fp16 --loss-scale 16777216");
  const std::vector<Replica> replicas = train(plan, 16);
  CHECK(replicas[0].skipped.front());
  CHECK_FALSE(replicas[0].skipped.back());
  CHECK(replicas[0].skipped == replicas[1].skipped);
  const auto count = std::count(replicas[0].skipped.begin(), replicas[0].skipped.end(), true);
  for (const Replica& replica : replicas) CHECK(replica.scale == 16777216 * std::pow(0.5, count));
  // The parameters of a skipped step are those before it, so the next loss is the same.
  CHECK(loss_of_batch(replicas, 0) == loss_of_batch(replicas, 1));
  CHECK(loss_of_batch(replicas, 15) != loss_of_batch(replicas, 14));
}

#endif

TEST_CASE("What a DDP program cannot do is refused before anything is run", "[runtime][data_parallel]") {
  const auto refused = [](const std::string& flags, const std::string& message) {
    INFO(flags);
    const Plan plan = make_plan(spec("--dim 8 --depth 2 --gpus 2 --batch 8 " + flags));
    CHECK_THROWS_AS(check_ddp_plan(plan, cpu_options(0)), InputError);
    CHECK_THROWS_WITH(check_ddp_plan(plan, cpu_options(0)), ContainsSubstring(message));
  };
  refused("--strategy ddp", "--transport: found nccl on CPU with strategy ddp, expected gloo");
  refused("--strategy ddp --transport gloo --tf 1 --tb 2", "--tf: found synthetic costs");
  refused("--schedule 1f1b", "--strategy: found pp, expected ddp");
}
