#include "sim/report/layer_times_document.hpp"

#include <algorithm>
#include <utility>

#include "sim/io/number_text.hpp"

namespace pdl {
namespace {

Table table_of_times(std::string name, TableColumn first, const std::vector<NamedTime>& times, double step_ms) {
  Table table{
      .name = std::move(name),
      .columns = {std::move(first), {"mean_ms", "mean over GPUs", "ms"}, {"share_percent", "share of the step", "%"}}};
  for (const NamedTime& time : times) {
    if (time.overlaps) continue;
    const double share_percent = 100 * time.ms / step_ms;
    table.rows.push_back({time.name, {fixed(time.ms, 3), time.ms}, {fixed(share_percent, 1), share_percent}});
  }
  return table;
}

/// "transfers take 0.210 ms and collectives 3.400 ms"; empty where there are none.
std::string text_of_overlapping(const std::vector<NamedTime>& times) {
  std::string text;
  for (const NamedTime& time : times) {
    if (!time.overlaps) continue;
    text += (text.empty() ? "" : " and ") + time.name + (text.empty() ? " take " : " ") + fixed(time.ms, 3) + " ms";
  }
  return text;
}

/// Of the rows that are there.
std::string legend_of(const std::vector<NamedTime>& times) {
  const bool other = std::any_of(times.begin(), times.end(),
                                 [](const NamedTime& time) { return time.name == "other" && !time.overlaps; });
  return std::string("device time of compute tasks; ") + (other ? "other: copies of gradients; " : "") +
         "rest: idle time, communication that no computation hides, waits for the host between kernels, and what "
         "kernels take longer beside a collective";
}

}  // namespace

Document layer_times_document(const RunResult& run) {
  Document document;
  if (run.layer_kinds.empty()) return document;
  const double step_ms = run.step_time.median_ms;
  document.add(Heading{"What the step computes"});
  document.add(table_of_times("layer_kinds", {"kind", "kind of layer", "", legend_of(run.layer_kinds), Align::left},
                              run.layer_kinds, step_ms));
  if (has_blocks(run.spec.model) && !run.layer_parts.empty())
    document.add(
        table_of_times("layer_parts", {"part", "part of the model", "", "", Align::left}, run.layer_parts, step_ms));
  if (const std::string overlapping = text_of_overlapping(run.layer_kinds); !overlapping.empty())
    document.add(Paragraph{"On a GPU " + overlapping +
                           ", hidden by computation or not: what is not hidden is part of the rest."});
  return document;
}

}  // namespace pdl
