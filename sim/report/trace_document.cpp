#include "sim/report/trace_document.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"

namespace pdl {
namespace {

constexpr std::size_t kMostKernels = 15, kMostGaps = 5;

double to_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

TableCell ms_cell(std::int64_t ns) {
  return {milliseconds(ns), to_ms(ns)};
}

TableCell count_cell(std::int64_t value) {
  return {std::to_string(value), static_cast<double>(value)};
}

/// A name that leaves room for the numbers beside it; JSON has all of it.
TableCell name_cell(const std::string& name) {
  constexpr std::size_t kMost = 44, kEnd = 12;
  if (name.size() <= kMost) return TableCell(name);
  return TableCell(name.substr(0, kMost - kEnd - 3) + "..." + name.substr(name.size() - kEnd));
}

/// Kernels of a name and a purpose in a step, of all ranks.
struct KernelSum {
  std::int64_t count = 0, total_ns = 0;
};
using KernelSums = std::map<std::pair<std::string, TracePart>, KernelSum>;

KernelSums kernel_sums(const std::vector<TracedStep>& steps) {
  KernelSums sums;
  for (const TracedStep& traced : steps) {
    for (std::size_t place = 0; place < traced.step().activities.size(); ++place) {
      const GpuActivity& activity = traced.trace.activities[traced.step().activities[place]];
      KernelSum& sum = sums[{short_name(activity), traced.step().parts[place]}];
      ++sum.count;
      sum.total_ns += activity.duration_ns();
    }
  }
  return sums;
}

Table parts_table(const std::vector<TracedStep>& steps) {
  Table table{.name = "parts", .columns = {{"rank", "rank"}, {"step_ms", "step", "ms"}}};
  const char* meanings[kTraceParts] = {
      "kernels that the program launched outside of a backward and of an optimizer",
      "kernels that autograd launched",
      "kernels of Optimizer.step and zero_grad",
      "a collective of NCCL runs, and no computation",
      "a send or receive of NCCL runs, also while it waits for its peer, and no computation",
      "a copy or a fill runs, and nothing else",
      "nothing runs, and the host has not launched what comes next",
      "nothing runs, though what comes next was launched"};
  for (std::size_t part = 0; part < kTraceParts; ++part)
    table.columns.push_back({std::string(kTracePartNames[part]) + "_ms", kTracePartNames[part], "ms", meanings[part]});
  for (std::size_t s = 0; s < steps.size(); ++s) {
    std::vector<TableCell> row = {TableCell(std::to_string(steps[s].rank(s))), ms_cell(steps[s].step().duration_ns())};
    for (const std::int64_t ns : parts_of(steps[s].trace, steps[s].step())) row.push_back(ms_cell(ns));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table kernels_table(const std::vector<TracedStep>& steps) {
  Table table{.name = "kernels",
              .title = "What ran, the longest in all first",
              .columns = {{"name", "kernel", "", "", Align::left},
                          {"part", "for", "", "", Align::left},
                          {"count", "launches"},
                          {"total_ms", "in all", "ms"},
                          {"mean_us", "mean", "us"}}};
  const auto add = [&](const std::string& name, const std::string& part, const KernelSum& sum) {
    const double mean_us = static_cast<double>(sum.total_ns) / 1e3 / static_cast<double>(sum.count);
    table.rows.push_back({name_cell(name), TableCell(part), count_cell(sum.count), ms_cell(sum.total_ns),
                          TableCell(fixed(mean_us, 1), mean_us)});
  };
  const KernelSums sums = kernel_sums(steps);
  std::vector<std::pair<KernelSums::key_type, KernelSum>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.total_ns > b.second.total_ns; });
  KernelSum others;
  for (std::size_t place = 0; place < sorted.size(); ++place) {
    const auto& [kernel, sum] = sorted[place];
    if (place < kMostKernels) add(kernel.first, kTracePartNames[static_cast<std::size_t>(kernel.second)], sum);
    if (place < kMostKernels) continue;
    others.count += sum.count;
    others.total_ns += sum.total_ns;
  }
  if (others.count > 0) add(std::to_string(sorted.size() - kMostKernels) + " others", "-", others);
  return table;
}

Table gaps_table(const std::vector<TracedStep>& steps) {
  Table table{.name = "gaps",
              .title = "Where nothing ran for longest",
              .columns = {{"rank", "rank"},
                          {"at_ms", "at", "ms", "from the start of the step"},
                          {"gap_ms", "nothing runs", "ms"},
                          {"host_ms", "host", "ms", "of that, the host had not launched what comes next"},
                          {"next", "what comes next", "", "", Align::left}}};
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const TraceGap& gap : largest_gaps(steps[s].trace, steps[s].step(), kMostGaps)) {
      table.rows.push_back({TableCell(std::to_string(steps[s].rank(s))),
                            ms_cell(gap.start_ns - steps[s].step().start_ns), ms_cell(gap.duration_ns),
                            ms_cell(gap.host_ns), name_cell(short_name(steps[s].trace.activities[gap.next]))});
    }
  }
  return table;
}

std::string text_of_trace(const TracedStep& traced) {
  const KinetoTrace& trace = traced.trace;
  std::string text = trace.path + ": ";
  if (trace.rank >= 0) text += "rank " + std::to_string(trace.rank) + " of " + std::to_string(trace.world_size) + ", ";
  if (!trace.gpu.empty()) text += trace.gpu + ", ";
  if (!trace.nccl.empty()) text += "NCCL " + trace.nccl + ", ";
  text += std::to_string(traced.steps.size()) + (traced.steps.size() == 1 ? " step" : " steps") +
          "; shown: " + traced.step().name + ", " + std::to_string(traced.step().activities.size()) +
          " activities of the GPU";
  return text;
}

/// What is in none of the parts, or in one by a guess.
void say_what_is_left_out(Document& document, const TracedStep& traced) {
  std::int64_t outside_ns = 0;
  const std::vector<std::size_t> outside = outside_of_steps(traced.trace, traced.steps);
  for (const std::size_t a : outside) outside_ns += traced.trace.activities[a].duration_ns();
  if (!outside.empty()) {
    document.add(Warning{std::to_string(outside.size()) + " activities of the GPU, " + milliseconds(outside_ns) +
                             " ms in all, are in no step: of barriers, or launched before the first step, after the "
                             "last or between two",
                         traced.trace.path});
  }
  std::int64_t unknown = 0;
  for (const std::size_t a : traced.step().activities) unknown += !traced.trace.activities[a].is_launch_known();
  if (!names_backwards(traced.trace)) {
    document.add(
        Warning{"no call of autograd is in the trace, which tells a backward from a forward: all kernels but "
                "the optimizer's count as forward (record ProfilerActivity.CPU too)",
                traced.trace.path});
  }
  if (unknown > 0) {
    document.add(Warning{std::to_string(unknown) + " of " + std::to_string(traced.step().activities.size()) +
                             " activities of the step have no call that launched them in the trace: their kernels "
                             "count as forward, and the time before them as waiting",
                         traced.trace.path});
  }
}

}  // namespace

Document trace_document(const std::vector<TracedStep>& steps) {
  Document document{.title = "trace"};
  for (const TracedStep& traced : steps) document.add(Paragraph{text_of_trace(traced), 2});
  document.add(parts_table(steps));
  document.add(Paragraph{"The parts of a rank add up to its step, to the nanosecond."});
  document.add(kernels_table(steps));
  document.add(gaps_table(steps));
  for (const TracedStep& traced : steps) say_what_is_left_out(document, traced);
  std::set<int> ranks;
  int world = 0;
  for (const TracedStep& traced : steps) {
    ranks.insert(traced.trace.rank);
    world = std::max(world, traced.trace.world_size);
  }
  if (world > static_cast<int>(ranks.size())) {
    document.add(Warning{std::to_string(ranks.size()) + " of " + std::to_string(world) +
                             " ranks: what the others did, and whom a message or collective waited for, is not known",
                         ""});
  }
  return document;
}

nlohmann::ordered_json trace_json(const std::vector<TracedStep>& steps) {
  nlohmann::ordered_json json = {{"format", "pdl-trace-1"}, {"ranks", nlohmann::ordered_json::array()}};
  for (const TracedStep& traced : steps) {
    const KinetoTrace& trace = traced.trace;
    nlohmann::ordered_json rank = {{"file", trace.path},
                                   {"rank", trace.rank},
                                   {"world_size", trace.world_size},
                                   {"gpu", trace.gpu},
                                   {"nccl", trace.nccl},
                                   {"step", traced.step().name},
                                   {"steps_ms", nlohmann::ordered_json::array()}};
    for (const TraceStep& step : traced.steps) rank["steps_ms"].push_back(to_ms(step.duration_ns()));
    const std::vector<std::int64_t> parts = parts_of(trace, traced.step());
    for (std::size_t part = 0; part < kTraceParts; ++part) rank["parts_ms"][kTracePartNames[part]] = to_ms(parts[part]);
    rank["activities_in_no_step"] = outside_of_steps(trace, traced.steps).size();
    for (const std::size_t a : traced.step().activities) {
      const GpuActivity& activity = trace.activities[a];
      const char* kind = activity.kind == GpuActivityKind::kernel ? "kernel"
                         : activity.kind == GpuActivityKind::copy ? "copy"
                                                                  : "fill";
      nlohmann::ordered_json entry = {
          {"name", activity.name},
          {"kind", kind},
          {"stream", activity.stream},
          {"start_us", static_cast<double>(activity.start_ns - traced.step().start_ns) / 1e3},
          {"end_us", static_cast<double>(activity.end_ns - traced.step().start_ns) / 1e3}};
      if (activity.is_launch_known())
        entry["launched_us"] = static_cast<double>(activity.launch_start_ns - traced.step().start_ns) / 1e3;
      rank["activities"].push_back(std::move(entry));
    }
    json["ranks"].push_back(std::move(rank));
  }
  return json;
}

}  // namespace pdl
