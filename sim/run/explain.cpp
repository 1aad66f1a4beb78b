#include "sim/run/explain.hpp"

#include <algorithm>
#include <numeric>

#include "sim/run/metrics.hpp"
#include "sim/run/waiting_for.hpp"

namespace pdl {
namespace {

constexpr std::array<const char*, kStepParts> kStepPartKeys = {
    "useful", "fill_and_drain", "imbalance", "transfers",     "collectives",
    "host",   "sleep",          "optimizer", "recomputation", "contention"};

bool computes(TaskKind kind) {
  return !is_communication(kind) && kind != TaskKind::sleep;
}

/// What a span's own running time is, on its GPU.
StepPart part_of_span(TaskKind kind) {
  if (is_useful(kind)) return StepPart::useful;
  if (kind == TaskKind::recompute) return StepPart::recomputation;
  if (is_transfer(kind)) return StepPart::transfers;
  if (is_collective(kind)) return StepPart::collectives;
  return kind == TaskKind::sleep ? StepPart::sleep : StepPart::optimizer;
}

/// A time between two moments in which one span ran (-1: none, the host).
struct Piece {
  std::int32_t span = -1;
  std::int64_t start_ns = 0, end_ns = 0;
};

/// Follows back what spans waited for.
class Chain {
 public:
  /// `before_without_sleeps`: empty where no host sleeps.
  Chain(const std::vector<Span>& spans, std::vector<std::int32_t> before,
        const std::vector<std::int32_t>& before_without_sleeps)
      : spans_(spans), before_(std::move(before)), slept_ns_(spans.size(), before_without_sleeps.empty() ? 0 : -1) {
    for (std::size_t i = 0; i < spans.size(); ++i) add_up_sleeps(static_cast<std::int32_t>(i), before_without_sleeps);
  }

  /// How long hosts slept in all that `span` waited for, beyond what else was waited for meanwhile.
  std::int64_t slept_before_ns(std::int32_t span) const { return slept_ns_[static_cast<std::size_t>(span)]; }

  /// What ran from `from_ns` until span `last` began, or with `inclusive` until `until_ns`, which `last` ended before:
  /// pieces from the last to the first, which fill the time.
  std::vector<Piece> pieces(std::int64_t from_ns, std::int64_t until_ns, std::int32_t last, bool inclusive) const {
    std::vector<Piece> found;
    std::int64_t now_ns = until_ns;
    const auto add = [&](std::int32_t span, std::int64_t start_ns) {
      start_ns = std::clamp(start_ns, from_ns, now_ns);
      if (start_ns < now_ns) found.push_back({span, start_ns, now_ns});
      now_ns = start_ns;
    };
    const auto run_through = [&](std::int32_t span) {
      add(-1, of(span).end_ns);
      add(span, began_to_run_ns(span));
    };
    if (inclusive) run_through(last);
    // Of measured times a circle could be made; no chain is longer than all spans.
    for (std::size_t steps = 0; now_ns > from_ns; ++steps) {
      const std::int32_t next = steps < spans_.size() ? before_[static_cast<std::size_t>(last)] : -1;
      if (next < 0) {
        add(-1, from_ns);
      } else if (is_partner(last, next)) {
        add(-1, of(next).start_ns);  // measured clocks may differ
      } else {
        run_through(next);
      }
      last = next;
    }
    return found;
  }

 private:
  const Span& of(std::int32_t span) const { return spans_[static_cast<std::size_t>(span)]; }

  /// Of its group the one that was ready last: it began later, and nothing that has to end before `span` can.
  bool is_partner(std::int32_t span, std::int32_t next) const {
    return is_communication(of(span).kind) && is_communication(of(next).kind) && of(next).start_ns > of(span).start_ns;
  }

  /// A send, receive or collective runs once all of its group are ready.
  std::int64_t began_to_run_ns(std::int32_t span) const {
    const std::int32_t next = before_[static_cast<std::size_t>(span)];
    const bool waited = next >= 0 && is_partner(span, next);
    return std::min(waited ? of(next).start_ns : of(span).start_ns, of(span).end_ns);
  }

  /// Back to a span of which it is known; one that is met again, in a circle, counts as none.
  void add_up_sleeps(std::int32_t span, const std::vector<std::int32_t>& before_without_sleeps) {
    std::vector<std::size_t> unknown;
    for (std::int32_t s = span; s >= 0 && slept_before_ns(s) < 0; s = before_[unknown.back()]) {
      unknown.push_back(static_cast<std::size_t>(s));
      slept_ns_[unknown.back()] = 0;
    }
    for (; !unknown.empty(); unknown.pop_back()) {
      const std::size_t s = unknown.back();
      const std::int32_t last = before_[s];
      if (last < 0) continue;
      slept_ns_[s] = slept_before_ns(last);
      if (of(last).kind != TaskKind::sleep) continue;
      const std::int32_t other = before_without_sleeps[s];
      const std::int64_t from_ns = std::max(of(last).start_ns, other < 0 ? 0 : of(other).end_ns);
      slept_ns_[s] += std::max<std::int64_t>(of(last).end_ns - from_ns, 0);
    }
  }

  const std::vector<Span>& spans_;
  std::vector<std::int32_t> before_;
  std::vector<std::int64_t> slept_ns_;  // by span; -1: not known yet
};

/// So much of a compute span, its parts.
void add_compute(TimeByPart& time, StepPart part, std::int64_t length_ns, const TimeOfTask* task) {
  const std::int64_t alone_ns = task ? std::min(length_ns, task->alone_ns) : length_ns;
  const std::int64_t contention_ns = task ? std::min(length_ns - alone_ns, task->contention_ns) : 0;
  time[part] += alone_ns;
  time[StepPart::contention] += contention_ns;
  time[StepPart::host] += length_ns - alone_ns - contention_ns;
}

class Explainer {
 public:
  Explainer(const RunResult& run, Chain chain, std::span<const TimeOfTask> tasks)
      : run_(run), spans_(run.timeline.spans), tasks_(tasks), chain_(std::move(chain)) {}

  Explanation explained() {
    Explanation result;
    result.step_ns = step_ns(run_);
    result.times_alone_known = !tasks_.empty();
    result.gpus.resize(static_cast<std::size_t>(run_.spec.gpus));
    std::vector<std::vector<std::int32_t>> computing(result.gpus.size());
    std::vector<std::int64_t> first_ns(result.gpus.size(), run_.timeline.step_ns);
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      if (computes(spans_[i].kind) && spans_[i].end_ns > spans_[i].start_ns)
        computing.at(static_cast<std::size_t>(spans_[i].worker)).push_back(static_cast<std::int32_t>(i));
      std::int64_t& first = first_ns.at(static_cast<std::size_t>(spans_[i].worker));
      first = std::min(first, spans_[i].start_ns);
      if (last_ < 0 || spans_[i].end_ns > of(last_).end_ns) last_ = static_cast<std::int32_t>(i);
    }
    for (std::size_t g = 0; g < computing.size(); ++g) {
      std::stable_sort(computing[g].begin(), computing[g].end(),
                       [&](std::int32_t a, std::int32_t b) { return of(a).start_ns < of(b).start_ns; });
      explain_gpu(computing[g], first_ns[g], result.step_ns, result.gpus[g]);
    }
    tell_imbalance(result.gpus);
    trace_critical_path(result);
    return result;
  }

 private:
  const Span& of(std::int32_t span) const { return spans_[static_cast<std::size_t>(span)]; }
  const TimeOfTask* task(std::int32_t span) const {
    return tasks_.empty() ? nullptr : &tasks_[static_cast<std::size_t>(span)];
  }

  /// Each moment belongs to the compute span that began first of those that run, or to the gap between two.
  void explain_gpu(const std::vector<std::int32_t>& computing, std::int64_t first_ns, std::int64_t step_ns,
                   TimeByPart& time) const {
    const bool own_start = steps_overlap(run_.spec);
    std::int64_t done_ns = own_start ? first_ns : 0;
    const std::int64_t end_ns = done_ns + step_ns;
    for (const std::int32_t span : computing) {
      const Span& own = of(span);
      if (own.start_ns > done_ns) {
        add_gap(time, done_ns, own.start_ns, span, false);
        done_ns = own.start_ns;
      }
      if (own.end_ns <= done_ns) continue;
      add_compute(time, part_of_span(own.kind), own.end_ns - done_ns, task(span));
      done_ns = own.end_ns;
    }
    if (own_start) {
      add_waiting(time, end_ns - done_ns, last_);
    } else {
      add_gap(time, done_ns, end_ns, last_, true);
    }
  }

  void add_gap(TimeByPart& time, std::int64_t from_ns, std::int64_t until_ns, std::int32_t last, bool inclusive) const {
    std::int64_t waited_ns = 0;
    for (const Piece& piece : chain_.pieces(from_ns, until_ns, last, inclusive)) {
      const std::int64_t length_ns = piece.end_ns - piece.start_ns;
      if (piece.span < 0) {
        time[StepPart::host] += length_ns;
      } else if (computes(of(piece.span).kind)) {
        waited_ns += length_ns;
      } else {
        time[part_of_span(of(piece.span).kind)] += length_ns;
      }
    }
    add_waiting(time, waited_ns, last);
  }

  /// For compute tasks of other GPUs until `last`, which a sleep may have held up.
  void add_waiting(TimeByPart& time, std::int64_t waited_ns, std::int32_t last) const {
    const std::int64_t further_ns = std::max<std::int64_t>(chain_.slept_before_ns(last) - time[StepPart::sleep], 0);
    const std::int64_t slept_ns = std::min(waited_ns, further_ns);
    time[StepPart::sleep] += slept_ns;
    time[StepPart::fill_and_drain] += waited_ns - slept_ns;
  }

  static void tell_imbalance(std::vector<TimeByPart>& gpus) {
    const auto work_ns = [](const TimeByPart& time) {
      return time[StepPart::useful] + time[StepPart::optimizer] + time[StepPart::recomputation];
    };
    std::int64_t most_ns = 0;
    for (const TimeByPart& time : gpus) most_ns = std::max(most_ns, work_ns(time));
    for (TimeByPart& time : gpus) {
      const std::int64_t moved_ns = std::min(time[StepPart::fill_and_drain], most_ns - work_ns(time));
      time[StepPart::fill_and_drain] -= moved_ns;
      time[StepPart::imbalance] += moved_ns;
    }
  }

  void trace_critical_path(Explanation& result) const {
    std::vector<Piece> pieces = chain_.pieces(0, run_.timeline.step_ns, last_, true);
    std::reverse(pieces.begin(), pieces.end());
    const std::vector<bool> several = holds_several_stages(run_);
    std::int32_t gpu = 0;
    std::string first_name;
    for (const Piece& piece : pieces) {
      const Span* span = piece.span < 0 ? nullptr : &of(piece.span);
      const StepPart part = span ? part_of_span(span->kind) : StepPart::host;
      if (span) gpu = span->worker;
      const std::int64_t length_ns = piece.end_ns - piece.start_ns;
      if (span && computes(span->kind)) {
        add_compute(result.critical_path_by_part, part, length_ns, task(piece.span));
      } else {
        result.critical_path_by_part[part] += length_ns;
      }
      const std::string name = span ? span_name(run_, *span, several[static_cast<std::size_t>(gpu)]) : "host";
      std::vector<PathSegment>& path = result.critical_path;
      if (!span && !path.empty() && length_ns <= at_once_ns(run_)) {
        path.back().end_ns = piece.end_ns;
        continue;
      }
      if (!path.empty() && path.back().part == part && path.back().gpu == gpu &&
          (path.back().tasks > 0) == (span != nullptr)) {
        PathSegment& segment = path.back();
        segment.end_ns = piece.end_ns;
        segment.tasks += span ? 1 : 0;
        segment.name = first_name == name ? name : first_name + " to " + name;
      } else {
        path.push_back({part, gpu, name, piece.start_ns, piece.end_ns, span ? 1 : 0});
        first_name = name;
      }
    }
  }

  const RunResult& run_;
  const std::vector<Span>& spans_;
  std::span<const TimeOfTask> tasks_;
  Chain chain_;
  std::int32_t last_ = -1;  // to end
};

double milliseconds_of_ns(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

nlohmann::ordered_json parts_to_json(const TimeByPart& time) {
  nlohmann::ordered_json out;
  for (std::size_t p = 0; p < kStepParts; ++p)
    out[std::string(kStepPartKeys[p]) + "_ms"] = milliseconds_of_ns(time.ns[p]);
  return out;
}

}  // namespace

const char* to_string(StepPart part) {
  return kStepPartKeys[static_cast<std::size_t>(part)];
}

std::int64_t TimeByPart::sum_ns() const {
  return std::accumulate(ns.begin(), ns.end(), std::int64_t{0});
}

std::optional<Explanation> explain(const RunResult& run, std::span<const TimeOfTask> tasks) {
  std::vector<std::int32_t> before = last_before(run);
  if (before.empty()) return std::nullopt;
  const std::vector<Span>& spans = run.timeline.spans;
  const bool sleeps =
      std::any_of(spans.begin(), spans.end(), [](const Span& span) { return span.kind == TaskKind::sleep; });
  Chain chain(spans, std::move(before), sleeps ? last_before_without_sleeps(run) : std::vector<std::int32_t>());
  return Explainer(run, std::move(chain), tasks).explained();
}

double mean_ms(const Explanation& explanation, StepPart part) {
  double sum_ns = 0;
  for (const TimeByPart& time : explanation.gpus) sum_ns += static_cast<double>(time[part]);
  return sum_ns / static_cast<double>(explanation.gpus.size()) / 1e6;
}

nlohmann::ordered_json to_json(const Explanation& explanation) {
  using nlohmann::ordered_json;
  ordered_json out = {{"step_ms", milliseconds_of_ns(explanation.step_ns)}};
  for (std::size_t p = 0; p < kStepParts; ++p)
    out["mean"][std::string(kStepPartKeys[p]) + "_ms"] = mean_ms(explanation, static_cast<StepPart>(p));
  for (const TimeByPart& time : explanation.gpus) out["gpus"].push_back(parts_to_json(time));
  out["critical_path"]["parts"] = parts_to_json(explanation.critical_path_by_part);
  out["critical_path"]["segments"] = ordered_json::array();
  for (const PathSegment& segment : explanation.critical_path) {
    out["critical_path"]["segments"].push_back({{"part", to_string(segment.part)},
                                                {"gpu", segment.gpu},
                                                {"name", segment.name},
                                                {"tasks", segment.tasks},
                                                {"start_ms", milliseconds_of_ns(segment.start_ns)},
                                                {"end_ms", milliseconds_of_ns(segment.end_ns)}});
  }
  out["without"] = ordered_json::array();
  for (const StepWithout& without : explanation.without)
    out["without"].push_back({{"what", without.what}, {"step_time_ms", without.step_time_ms}});
  return out;
}

}  // namespace pdl
