// Homework 1.4: DataParallel against DistributedDataParallel.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <array>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/course/series.hpp"
#include "sim/io/number_text.hpp"
#include "sim/run/gpu_alone.hpp"
#include "sim/run/gpu_utilisation.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {
namespace {

/// The same work by both, all of one kind.
struct BothPrograms {
  Series series;
  const ScenarioRow *dp = nullptr, *ddp = nullptr;
};

std::vector<BothPrograms> both_programs(const Tables& tables) {
  std::vector<BothPrograms> all;
  // The strategy decides transport and workers too.
  for (const Series& series : series_over(tables, {"strategy", "transport", "workers", "p2p"})) {
    const auto of = [&](Program program) {
      return find_row_of(series, [&](const ScenarioRow& row) { return resolve(row.spec).program == program; });
    };
    if (of(Program::data_parallel) && of(Program::ddp))
      all.push_back({series, of(Program::data_parallel), of(Program::ddp)});
  }
  return all;
}

/// The first that the host does not bound: of a step that it does, shares of the GPUs say little.
const BothPrograms& clearest(const std::vector<BothPrograms>& all) {
  const auto found = std::find_if(all.begin(), all.end(), [](const BothPrograms& both) {
    return !is_host_bound(*both.dp) && !is_host_bound(*both.ddp);
  });
  return found == all.end() ? all.front() : *found;
}

template <typename Text>
std::string by_gpu(const EvaluatedRun& run, Text text) {
  std::string out;
  for (std::size_t g = 0; g < run.metrics.gpus.size(); ++g) out += (out.empty() ? "" : ", ") + text(g);
  return out;
}

std::string utilisation_by_gpu(const EvaluatedRun& run) {
  return by_gpu(run,
                [&](std::size_t g) { return fixed(100 * kernel_share(run.result, static_cast<std::int32_t>(g)), 0); }) +
         " %";
}

std::string compute_by_gpu(const EvaluatedRun& run) {
  return by_gpu(run,
                [&](std::size_t g) {
                  return fixed(
                      100 * static_cast<double>(run.metrics.gpus[g].busy_ns) / static_cast<double>(run.metrics.step_ns),
                      0);
                }) +
         " %";
}

std::string memory_by_gpu(const EvaluatedRun& run) {
  const auto& bytes = run.result.peak_memory_bytes;
  return bytes.empty() ? "unknown" : by_gpu(run, [&](std::size_t g) { return gib(bytes[g]); }) + " GiB";
}

std::string facts_of(const Series& series, const ScenarioRow& row) {
  const EvaluatedRun& run = run_of(series, row);
  const auto deviation_ms = measured_facts(run.result).step_time_stddev_ms;
  return ms(step_ms(series, row)) +
         (deviation_ms ? " with a variance of " + fixed(*deviation_ms * *deviation_ms, 4) + " ms^2" : "") +
         ", utilisation as nvidia-smi shows it " + utilisation_by_gpu(run) + " (computing " + compute_by_gpu(run) +
         "), memory " + memory_by_gpu(run) + recording_text(run);
}

std::string place_of(const BothPrograms& both) {
  return work_text(both.dp->spec) + " on " + gpus_of(*both.dp) + ", " + source_of(both.series);
}

/// "broadcast of the parameters 6.39 ms, ...", of GPU 0: the longest three.
std::string phases_of_gpu_0(const EvaluatedRun& run) {
  struct Named {
    TaskKind kind;
    const char* what;
    std::int64_t time_ns = 0;
  };
  std::array kinds = {Named{TaskKind::scatter, "scatter"},
                      Named{TaskKind::broadcast, "broadcast of the parameters"},
                      Named{TaskKind::gather, "gather"},
                      Named{TaskKind::loss, "loss"},
                      Named{TaskKind::reduce, "reduce of the gradients"},
                      Named{TaskKind::optimizer, "optimizer"}};
  for (Named& named : kinds) named.time_ns = time_of_kind_ns(run.result, 0, named.kind);
  std::stable_sort(kinds.begin(), kinds.end(), [](const Named& a, const Named& b) { return a.time_ns > b.time_ns; });
  std::vector<std::string> items;
  for (std::size_t i = 0; i < 3; ++i) {
    if (kinds[i].time_ns > 0) items.push_back(std::string(kinds[i].what) + " " + ms_of(kinds[i].time_ns));
  }
  return listed(items);
}

double dp_over_ddp(const BothPrograms& both) {
  return step_ms(both.series, *both.dp) / step_ms(both.series, *both.ddp);
}

}  // namespace

std::string hw1_4_experiment(const Tables& tables) {
  const std::vector<BothPrograms> all = both_programs(tables);
  if (all.empty()) return "";
  const BothPrograms& both = clearest(all);
  return place_of(both) + ": DataParallel " + facts_of(both.series, *both.dp) + "; DDP " +
         facts_of(both.series, *both.ddp) + ".";
}

std::string hw1_4_why_gpu_0(const Tables& tables) {
  const std::vector<BothPrograms> all = both_programs(tables);
  if (all.empty()) return "";
  const BothPrograms& both = clearest(all);
  const EvaluatedRun& run = run_of(both.series, *both.dp);
  const std::int64_t leading = leading_ns(run.result, 0);
  return "In " + ms_of(leading) + " of a step of " + ms_of(run.metrics.step_ns) + ", " +
         percent(static_cast<double>(leading) / static_cast<double>(run.metrics.step_ns)) +
         ", GPU 0 works in serialized phases in which no GPU computes: " + phases_of_gpu_0(run) + " (" +
         place_of(both) + ").";
}

std::string hw1_4_why_ddp_scales(const Tables& tables) {
  const std::vector<BothPrograms> all = both_programs(tables);
  if (all.empty()) return "";
  const BothPrograms& both = clearest(all);
  const EvaluatedRun &dp = run_of(both.series, *both.dp), &ddp = run_of(both.series, *both.ddp);
  std::int64_t exposed_ns = 0;
  for (const GpuMetrics& gpu : ddp.metrics.gpus) exposed_ns = std::max(exposed_ns, gpu.comm_ns);
  return "It has no leader: a process a GPU keeps its own parameters and exchanges gradients bucket by bucket beside "
         "the backward, so that " +
         ms_of(exposed_ns) + " of communication are exposed, at most, instead of " + ms_of(leading_ns(dp.result, 0)) +
         " in serialized phases of GPU 0, and a step takes " + ms(step_ms(both.series, *both.ddp)) + " instead of " +
         ms(step_ms(both.series, *both.dp)) + " (" + place_of(both) +
         "). GPU 0 sends all parameters to each further GPU; DDP's ring moves less than 2 x the gradients a GPU "
         "whatever their number.";
}

std::string hw1_4_when_acceptable(const Tables& tables) {
  const std::vector<BothPrograms> all = both_programs(tables);
  if (all.empty()) return "";
  const BothPrograms& best = *std::min_element(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return dp_over_ddp(a) < dp_over_ddp(b); });
  const BothPrograms& worst = *std::max_element(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return dp_over_ddp(a) < dp_over_ddp(b); });
  std::string text = "On one host, where computation is most of the step: " +
                     time_against(step_ms(best.series, *best.dp), step_ms(best.series, *best.ddp)) + " than DDP (" +
                     place_of(best) + ")";
  if (&best != &worst)
    text += ", but " + time_against(step_ms(worst.series, *worst.dp), step_ms(worst.series, *worst.ddp)) + " (" +
            work_text(worst.dp->spec) + ", " + source_of(worst.series) + ")";
  return text + ". It needs one process and one changed line, which is enough for a first try.";
}

}  // namespace pdl
