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
         (series.side == Side::measured ? ", both of the recorded step" : "") + "), memory " + memory_by_gpu(run) +
         recording_text(run);
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

Difference dp_to_ddp(const BothPrograms& both) {
  return difference_to(step_ms(both.series, *both.dp), step_ms(both.series, *both.ddp));
}

bool are_host_bound(const BothPrograms& both) {
  return is_host_bound(*both.dp) || is_host_bound(*both.ddp);
}

/// What that does to the step: DDP's is shorter, or not here.
std::string steps_of(const BothPrograms& both) {
  const std::string ddp = ms(step_ms(both.series, *both.ddp)), dp = ms(step_ms(both.series, *both.dp));
  if (dp_to_ddp(both) == Difference::more) return "a step takes " + ddp + " instead of " + dp;
  const std::string why = are_host_bound(both) ? ": the steps are host-bound, and the exchange does not decide" : "";
  if (dp_to_ddp(both) == Difference::none)
    return "in the step that makes no difference here, " + ddp + " and " + dp + why;
  return "yet DDP's step is the longer one here, " + ddp + " instead of " + dp + why;
}

/// "1.09 times as long as with DDP (8 layers of 8192, batch 2048 on 4 GPUs, measured)".
std::string against_ddp(const BothPrograms& both) {
  return time_as_long(step_ms(both.series, *both.dp), step_ms(both.series, *both.ddp)) + " with DDP (" +
         place_of(both) + ")";
}

}  // namespace

std::string hw1_4_experiment(const Tables& tables) {
  const std::vector<BothPrograms> all = both_programs(tables);
  if (all.empty()) return "";
  const BothPrograms& both = clearest(all);
  return place_of(both) + ": DataParallel " + facts_of(both.series, *both.dp) + "; DDP " +
         facts_of(both.series, *both.ddp) + "." +
         (std::any_of(all.begin(), all.end(), are_host_bound)
              ? " Of host-bound rows utilisation is an upper limit: waits for launches are inside the tasks."
              : "");
}

std::string hw1_4_why_gpu_0(const Tables& tables) {
  const std::vector<BothPrograms> all = both_programs(tables);
  if (all.empty()) return "";
  const BothPrograms& both = clearest(all);
  const EvaluatedRun& run = run_of(both.series, *both.dp);
  const std::int64_t leading = leading_ns(run.result, 0);
  return "In " + ms_of(leading) + " of a " + step_of_spans(both.series.side) + " of " + ms_of(run.metrics.step_ns) +
         ", " + percent(static_cast<double>(leading) / static_cast<double>(run.metrics.step_ns)) +
         ", GPU 0 works in serialized phases in which no forward or backward runs: " + phases_of_gpu_0(run) + " (" +
         place_of(both) + ").";
}

std::string hw1_4_why_ddp_scales(const Tables& tables) {
  const std::vector<BothPrograms> all = both_programs(tables);
  if (all.empty()) return "";
  const BothPrograms& both = clearest(all);
  const auto exposed_of_gpu_0 = [&](const ScenarioRow& row) {
    return run_of(both.series, row).metrics.gpus.front().comm_ns;
  };
  return "It has no leader: a process a GPU keeps its own parameters and exchanges gradients bucket by bucket beside "
         "the backward. On GPU 0 " +
         ms_of(exposed_of_gpu_0(*both.ddp)) + " of a " + step_of_spans(both.series.side) +
         " are exposed communication, with DataParallel " + ms_of(exposed_of_gpu_0(*both.dp)) + "; " + steps_of(both) +
         " (" + place_of(both) +
         "). GPU 0 of DataParallel sends all parameters to each further GPU; DDP's ring moves less than 2 x the "
         "gradients a GPU whatever their number.";
}

std::string hw1_4_when_acceptable(const Tables& tables) {
  const std::vector<BothPrograms> all = both_programs(tables);
  if (all.empty()) return "";
  const auto less = [](const auto& a, const auto& b) { return dp_over_ddp(a) < dp_over_ddp(b); };
  const BothPrograms& best = *std::min_element(all.begin(), all.end(), less);
  const BothPrograms& worst = *std::max_element(all.begin(), all.end(), less);
  const bool never_longer = dp_to_ddp(worst) != Difference::more;
  std::string text = never_longer           ? "In these rows: a step takes "
                     : are_host_bound(best) ? "On one host: a step takes "
                                            : "On one host, where computation is most of the step: it takes ";
  text += against_ddp(best);
  if (&best != &worst) text += (never_longer ? " and " : ", but ") + against_ddp(worst);
  return text + ". It needs one process and one changed line, which is enough for a first try.";
}

}  // namespace pdl
