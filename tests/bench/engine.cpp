// How fast a step is simulated, from its flags to the text of its tables, and what of that is unavoidable. No test:
// other work on the machine changes the times.
//
//   bench_engine fixed  [--most 10000000]   pipelines of 1e3 to that many tasks, beside a bare topological sweep
//   bench_engine shared [--most 1000000]    DDP on 4 x H200: NCCL beside GEMMs, multiprocessors shared
//   bench_engine growth [--gpus 25000]      each shape for N, 2N and 4N GPUs, and the exponent of the growth
//
// The bare sweep is Kahn's algorithm over arrays that are there before the clock starts: of every task what comes after
// it (edges, and the next one on its stream), how many it waits for, how long it takes. Free tasks are in a queue, the
// oldest first, as the algorithm is mostly written, or on a stack, the newest first, which the caches like better. It
// gives the same times, which is checked, and knows no names, no costs, no memory, no tables. A program has to ask the
// system for the memory that the sweep writes: the queue is timed with that, in large pages as those of pdl, and both
// are timed in memory that they have from the round before. All are run in turn, what takes memory from the system in
// a process of its own each time; medians of the processor's time.
//
// Bytes a task: the largest resident memory of a process that does only this, divided by the tasks.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/engine/order.hpp"
#include "sim/io/large_array.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/step_of_plan.hpp"
#include "sim/report/run_document.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// Of the processor, the system's part of it included: there is one thread, and other programs take turns with it.
double seconds(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

/// What pdl-sim does with these flags.
std::size_t simulate_whole(const std::string& flags, const CostProfile* profile) {
  const auto run = std::make_shared<const RunResult>(predict(spec(flags), profile));
  return to_terminal(run_document(run, {.with_gantt = true}, nullptr), {}).size();
}

struct OfProcess {
  double seconds = 0;         // of the work
  double resident_bytes = 0;  // at most, the program itself included
};

/// Of work in a process of its own, which takes its memory anew.
OfProcess in_process(const std::function<void()>& work) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe failed");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    const double taken = seconds(work);
    _exit(write(ends[1], &taken, sizeof taken) == sizeof taken ? 0 : 1);
  }
  close(ends[1]);
  OfProcess of;
  const bool is_told = read(ends[0], &of.seconds, sizeof of.seconds) == sizeof of.seconds;
  close(ends[0]);
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  if (status != 0 || !is_told) throw std::runtime_error("the process that is measured has failed");
  of.resident_bytes = 1024.0 * static_cast<double>(used.ru_maxrss);
  return of;
}

struct SweepArrays {
  std::vector<std::uint32_t> first_after;  // by task, and their end
  std::vector<TaskId> after;
  std::vector<std::uint32_t> waits_for;
  std::vector<std::int64_t> device_ns;
};

/// What a sweep writes.
struct SweepResult {
  explicit SweepResult(std::size_t tasks) {
    reserve_large(waiting, tasks);
    reserve_large(times, tasks);
    reserve_large(free, tasks);
  }
  std::vector<std::uint32_t> waiting;
  std::vector<TaskTimes> times;
  std::vector<TaskId> free;
};

SweepArrays prebuilt(const TaskGraph& graph, const std::vector<TaskCost>& costs) {
  const std::vector<TaskId> next = next_on_stream(graph);
  const std::size_t tasks = graph.tasks.size();
  SweepArrays arrays;
  arrays.waits_for.assign(tasks, 0);
  for (TaskId task = 0; task < tasks; ++task) {
    arrays.first_after.push_back(static_cast<std::uint32_t>(arrays.after.size()));
    for (const TaskId after : graph.edges.after(task)) arrays.after.push_back(after);
    if (next[task] != kNone) arrays.after.push_back(next[task]);
    arrays.device_ns.push_back(costs[graph.tasks[task].work].device_ns);
  }
  arrays.first_after.push_back(static_cast<std::uint32_t>(arrays.after.size()));
  for (const TaskId after : arrays.after) ++arrays.waits_for[after];
  return arrays;
}

/// Of graphs without groups, whose hosts take no time.
void sweep(const SweepArrays& arrays, bool newest_first, SweepResult& result) {
  const std::size_t tasks = arrays.device_ns.size();
  result.waiting = arrays.waits_for;
  result.times.assign(tasks, {});
  result.free.resize(tasks);
  std::size_t begin = 0, end = 0;
  for (TaskId task = 0; task < tasks; ++task) {
    if (result.waiting[task] == 0) result.free[end++] = task;
  }
  while (begin < end) {
    const TaskId task = newest_first ? result.free[--end] : result.free[begin++];
    TaskTimes& time = result.times[task];
    time.end_ns = time.start_ns + arrays.device_ns[task];
    for (std::uint32_t a = arrays.first_after[task]; a < arrays.first_after[task + 1]; ++a) {
      const TaskId after = arrays.after[a];
      result.times[after].start_ns = std::max(result.times[after].start_ns, time.end_ns);
      if (--result.waiting[after] == 0) result.free[end++] = after;
    }
  }
}

/// A 1F1B pipeline of about so many tasks: 4 a stage and micro-batch, as many stages as micro-batches.
std::string pipeline_of(double tasks) {
  const std::string n = std::to_string(std::llround(std::sqrt(tasks / 4)));
  return "--gpus " + n + " --depth " + n + " --batch " + n + " --microbatches " + n +
         " --schedule 1f1b --tf 1 --tb 2 --tcomm 0.17777216";
}

int rounds_of(double tasks) {
  return static_cast<int>(std::clamp(2e7 / tasks, 5.0, 101.0));
}

void show_fixed_row(double about) {
  const std::string flags = pipeline_of(about);
  const double bytes = in_process([&] { simulate_whole(flags, nullptr); }).resident_bytes;
  const Plan plan = make_plan(spec(flags));
  const std::vector<TaskCost> costs = price_plan(plan, nullptr).costs;
  const auto tasks = static_cast<double>(plan.graph.tasks.size());
  const SweepArrays arrays = prebuilt(plan.graph, costs);
  SweepResult result(plan.graph.tasks.size());
  std::vector<double> whole, engine, fresh, newest, oldest;
  for (int i = 0; i < rounds_of(about); ++i) {
    whole.push_back(in_process([&] { simulate_whole(flags, nullptr); }).seconds);
    fresh.push_back(in_process([&] {
                      SweepResult taken(plan.graph.tasks.size());
                      sweep(arrays, false, taken);
                    }).seconds);
    oldest.push_back(seconds([&] { sweep(arrays, false, result); }));
    newest.push_back(seconds([&] { sweep(arrays, true, result); }));
    std::vector<TaskTimes> times;
    engine.push_back(seconds([&] { times = run_graph(plan.graph, costs); }));
    if (times != result.times) throw std::runtime_error("the engine and the sweep disagree");
  }
  const auto rate = [&](const std::vector<double>& times) { return tasks / median(times) / 1e6; };
  const auto ratio = [&](const std::vector<double>& times) { return median(whole) / median(times); };
  std::printf("| %.0f | %.4f | %.1f | %.0f | %.1f | %.1f | **%.2f** | %.1f | %.2f | %.1f | %.2f |\n", tasks,
              median(whole), rate(whole), bytes / tasks, rate(engine), rate(fresh), ratio(fresh), rate(oldest),
              ratio(oldest), rate(newest), ratio(newest));
  std::fflush(stdout);
}

void show_fixed(double most) {
  std::printf(
      "| tasks | whole, s | million tasks/s | bytes a task | engine alone, million tasks/s | sweep in memory from the "
      "system, million tasks/s | whole / sweep | sweep with a queue, million tasks/s | whole / sweep | sweep with a "
      "stack, million tasks/s | whole / sweep |\n"
      "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (double tasks = 1e3; tasks <= most; tasks *= 10) {
    show_fixed_row(tasks);
    if (tasks == 1e6 && most >= 4.2e6) show_fixed_row(4.0 * 1024 * 1024);
  }
}

/// DDP whose buckets are as small as its layers: 4 tasks of the exchange a layer, and its part of the backward.
std::string replicas_of(double tasks) {
  return "--strategy ddp --gpus 4 --dim 1024 --batch 2048 --bucket-mb 1 --first-bucket-mb 1 --depth " +
         std::to_string(std::llround(tasks / 16));
}

void show_shared(double most, const std::string& profile_name) {
  const CostProfile profile = load_profile(profile_name);
  std::printf(
      "| tasks | whole simulation, s | million tasks/s | bytes a task | engine alone, million tasks/s |\n"
      "|---:|---:|---:|---:|---:|\n");
  for (double about = 1e3; about <= most; about *= 10) {
    const std::string flags = replicas_of(about);
    const double bytes = in_process([&] { simulate_whole(flags, &profile); }).resident_bytes;
    const Plan plan = make_plan(spec(flags));
    LayerFamilies families(profile);
    const PricedWork priced = price_plan(plan, &families);
    if (priced.shared.count == 0) throw std::runtime_error("nothing is shared");
    const auto tasks = static_cast<double>(plan.graph.tasks.size());
    std::vector<double> whole, engine;
    for (int i = 0; i < rounds_of(20 * about); ++i) {
      whole.push_back(seconds([&] { simulate_whole(flags, &profile); }));
      engine.push_back(seconds([&] { run_graph(plan.graph, priced.costs, {&priced.shared, {}}); }));
    }
    std::printf("| %.0f | %.4f | %.2f | %.0f | %.2f |\n", tasks, median(whole), tasks / median(whole) / 1e6,
                bytes / tasks, tasks / median(engine) / 1e6);
    std::fflush(stdout);
  }
}

struct Shape {
  const char* name;
  std::function<std::string(std::int64_t)> flags;
};

std::vector<Shape> shapes() {
  const auto schedule = [](const std::string& name) {
    return [name](std::int64_t n) { return "--schedule " + name + " --microbatches 2 --gpus " + std::to_string(n); };
  };
  const auto replicas = [](const std::string& strategy) {
    return [strategy](std::int64_t n) {
      return "--strategy " + strategy + " --gpus " + std::to_string(n) + " --batch " + std::to_string(n);
    };
  };
  const auto mesh = [](std::int64_t pp, std::int64_t dp) {
    return "--microbatches 2 --pp " + std::to_string(pp) + " --dp " + std::to_string(dp) + " --batch " +
           std::to_string(pp * dp);
  };
  return {{"gpipe", schedule("gpipe")},
          {"1f1b", schedule("1f1b")},
          {"interleaved", schedule("interleaved")},
          {"zb-v", schedule("zb-v")},
          {"rendezvous", schedule("1f1b --p2p rendezvous")},
          {"one thread", [](std::int64_t n) { return "--strategy mp --microbatches 2 --gpus " + std::to_string(n); }},
          {"ddp", replicas("ddp")},
          {"dp", replicas("dp")},
          {"pp 4 x dp", [mesh](std::int64_t n) { return mesh(4, n / 4); }},
          {"pp x dp 4", [mesh](std::int64_t n) { return mesh(n / 4, 4); }}};
}

void show_growth(std::int64_t gpus) {
  std::printf("| seconds | %ld GPUs | %ld | %ld | exponent |\n|---|---:|---:|---:|---:|\n", static_cast<long>(gpus),
              static_cast<long>(2 * gpus), static_cast<long>(4 * gpus));
  for (const Shape& shape : shapes()) {
    std::vector<double> times;
    for (const std::int64_t n : {gpus, 2 * gpus, 4 * gpus}) {
      std::vector<double> of_n;
      for (int i = 0; i < 3; ++i)
        of_n.push_back(seconds([&] { simulate_whole(shape.flags(n) + " --dim 8 --tf 1 --tb 2 --tcomm 1", nullptr); }));
      times.push_back(*std::min_element(of_n.begin(), of_n.end()));
    }
    std::printf("| %s | %.3f | %.3f | %.3f | %.2f |\n", shape.name, times[0], times[1], times[2],
                std::log(times[2] / times[0]) / std::log(4));
    std::fflush(stdout);
  }
}

double number_after(const std::vector<std::string>& words, const std::string& flag, double otherwise) {
  const auto found = std::find(words.begin(), words.end(), flag);
  return found == words.end() || found + 1 == words.end() ? otherwise : std::stod(*(found + 1));
}

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string> words(values + 1, values + count);
  const std::string what = words.empty() ? "" : words.front();
  try {
    if (what == "fixed") return show_fixed(number_after(words, "--most", 1e7)), 0;
    if (what == "shared") return show_shared(number_after(words, "--most", 1e6), "h200x4"), 0;
    if (what == "growth") return show_growth(std::llround(number_after(words, "--gpus", 25000))), 0;
    std::fprintf(stderr, "bench_engine fixed [--most TASKS] | shared [--most TASKS] | growth [--gpus N]\n");
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_engine: %s\n", error.what());
    return 1;
  }
}
