// Homework 1.4 and 1.5C: DataParallel against DistributedDataParallel, and a straggler.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <array>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/io/number_text.hpp"
#include "sim/run/gpu_alone.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {
namespace {

/// The kind of numbers in which two rows are compared.
Side side_of_both(const ScenarioRow& a, const ScenarioRow& b) {
  return side_of(Rows{&a, &b});
}

const ScenarioRow* with_program(const Rows& rows, Program program, std::int64_t gpus) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](auto* row) {
    return resolve(row->spec).program == program && row->spec.gpus == gpus;
  });
  return found == rows.end() ? nullptr : *found;
}

std::string leading_text(const EvaluatedRun& run, Side side) {
  struct Named {
    TaskKind kind;
    const char* what;
  };
  constexpr std::array kKinds = {Named{TaskKind::scatter, "scatter"},
                                 Named{TaskKind::broadcast, "broadcast of the parameters"},
                                 Named{TaskKind::gather, "gather"},
                                 Named{TaskKind::loss, "loss"},
                                 Named{TaskKind::reduce, "reduce of the gradients"},
                                 Named{TaskKind::bucket_copy_out, "sum of the gradients"},
                                 Named{TaskKind::optimizer, "optimizer"}};
  std::vector<std::string> items;
  std::int64_t sum_ns = 0;
  for (const Named& named : kKinds) {
    const std::int64_t time_ns = time_of_kind_ns(run.result, 0, named.kind);
    sum_ns += time_ns;
    if (time_ns > 0) items.push_back(std::string(named.what) + " " + ms_of(time_ns));
  }
  const std::int64_t leading = leading_ns(run.result, 0);
  constexpr std::int64_t kRounding = 10'000;
  return "GPU 0 is at what no GPU can compute beside for " + ms_of(leading) + " of a step of " +
         ms_of(run.metrics.step_ns) + ", " +
         percent(static_cast<double>(leading) / static_cast<double>(run.metrics.step_ns)) + ": " + listed(items) +
         " (" + name(side) + ")" +
         (sum_ns > leading + kRounding
              ? "; these add up to " + ms_of(sum_ns) + ", because they overlap each other or forward and backward work"
              : "");
}

/// "62 %, 41 %, 41 %, 40 %": by GPU.
std::string busy_by_gpu(const EvaluatedRun& run) {
  std::string text;
  for (const GpuMetrics& gpu : run.metrics.gpus) {
    text += (text.empty() ? "" : ", ") +
            whole_percent(static_cast<double>(gpu.busy_ns) / static_cast<double>(run.metrics.step_ns));
  }
  return text;
}

std::string memory_by_gpu(const EvaluatedRun& run) {
  std::string text;
  for (const std::int64_t bytes : run.result.peak_memory_bytes) text += (text.empty() ? "" : ", ") + gib(bytes);
  return text + " GiB";
}

void compare_dp_with_ddp(const ScenarioRow& dp, const ScenarioRow& ddp, Sentences& out) {
  const Side side = side_of_both(dp, ddp);
  const EvaluatedRun &here = of(dp, side), &there = of(ddp, side);
  std::string text = work_text(dp.spec) + " on " + gpus_of(dp) + ": DataParallel takes " + ms(step_ms(dp, side)) +
                     ", DDP " + ms(step_ms(ddp, side)) + " (" + kind_text({&dp, &ddp}, side) + "), " +
                     time_against(step_ms(dp, side), step_ms(ddp, side)) + ".";
  const bool faster = step_ms(dp, Side::predicted) < step_ms(ddp, Side::predicted);
  if (side == Side::measured && faster != (step_ms(dp, side) < step_ms(ddp, side))) {
    text += " The prediction has it the other way round: " + ms(step_ms(dp, Side::predicted)) + " and " +
            ms(step_ms(ddp, Side::predicted)) + ".";
  }
  text += " Under DataParallel " + leading_text(here, side) + ".";
  text +=
      " At tasks of computation, by GPU: " + busy_by_gpu(here) + " of the step; under DDP " + busy_by_gpu(there) + ".";
  if (is_host_bound(dp) || is_host_bound(ddp))
    text +=
        " The host bounds these steps: waits for it are inside the tasks, and these shares are not work of the GPUs "
        "alone.";
  for (const EvaluatedRun* run : {&here, &there}) {
    const auto more = unusual_recording(run->result);
    if (more)
      text += " The recorded step of " + std::string(run == &here ? "DataParallel" : "DDP") + " took " +
              signed_fixed(100 * *more, 0) + " % against the median one: its shares say little.";
  }
  if (!here.result.peak_memory_bytes.empty() && !there.result.peak_memory_bytes.empty()) {
    text += " Peak memory, by GPU: " + memory_by_gpu(here) + "; under DDP " + memory_by_gpu(there) + ".";
  }
  if (side == Side::measured)
    text +=
        " Steps spread (p25 to p75) by " + spread_text(dp) + " of their median, under DDP by " + spread_text(ddp) + ".";
  out.push_back(text);
}

void answer_straggler(const ScenarioRow& plain, const ScenarioRow& straggling, Sentences& out) {
  const Side side = side_of_both(plain, straggling);
  const Straggler& straggler = *straggling.spec.straggler;
  const double more_ms = step_ms(straggling, side) - step_ms(plain, side);
  const auto gpus = static_cast<double>(straggling.spec.gpus);
  const EvaluatedRun &here = of(straggling, side), &there = of(plain, side);
  double idle_ms = 0;
  for (std::size_t g = 0; g < here.metrics.gpus.size(); ++g) {
    if (static_cast<std::int64_t>(g) == straggler.rank) continue;
    idle_ms =
        std::max(idle_ms, static_cast<double>(here.metrics.gpus[g].idle_ns - there.metrics.gpus[g].idle_ns) / 1e6);
  }
  out.push_back(
      work_text(plain.spec) + " on " + gpus_of(plain) + ": rank " + std::to_string(straggler.rank) + " sleeps " +
      ms(straggler.ms) + ", the step of everyone takes " + ms(step_ms(straggling, side)) + " instead of " +
      ms(step_ms(plain, side)) + " (" + kind_text({&plain, &straggling}, side) + "): " + ms(more_ms) + " more, " +
      whole_percent(more_ms / straggler.ms) + " of the sleep. The other GPUs wait" +
      (resolve(plain.spec).program == Program::ddp ? " in their first all-reduce" : "") + ", up to " + ms(idle_ms) +
      " longer than before; together the " + gpus_of(plain) + " lose " + ms(gpus * more_ms) + " of GPU time a step, " +
      fixed(gpus * more_ms / straggler.ms, 1) + " times what one of them sleeps. Throughput falls to " +
      percent(step_ms(plain, side) / step_ms(straggling, side)) + ".");
}

}  // namespace

Sentences dataparallel_ddp(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_by_model(table)) {
    for (const ScenarioRow* row : rows) {
      if (resolve(row->spec).program != Program::data_parallel) continue;
      if (const ScenarioRow* ddp = with_program(rows, Program::ddp, row->spec.gpus))
        compare_dp_with_ddp(*row, *ddp, out);
    }
  }
  return out;
}

Sentences imbalance(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_alike(table, {"straggler"})) {
    const auto plain = std::find_if(rows.begin(), rows.end(), [](auto* row) { return !row->spec.straggler; });
    for (const ScenarioRow* row : rows) {
      if (row->spec.straggler && row->spec.straggler->ms > 0 && plain != rows.end())
        answer_straggler(**plain, *row, out);
    }
  }
  return out;
}

}  // namespace pdl
