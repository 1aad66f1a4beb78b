#include "sim/report/trace_explain_document.hpp"

#include <algorithm>
#include <limits>

#include "sim/io/number_text.hpp"

namespace pdl {
namespace {

constexpr std::size_t kPathSegmentsShown = 16;

double explained_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

TableCell explained_cell(std::int64_t ns) {
  return {milliseconds(ns), explained_ms(ns)};
}

const char* name_of(TraceCost part) {
  return kTraceCostNames[static_cast<std::size_t>(part)];
}

/// What a part is, in the words of the legend.
const char* meaning_of(TraceCost part) {
  switch (part) {
    case TraceCost::forward: return "kernels launched outside of a backward and of an optimizer";
    case TraceCost::backward: return "kernels that autograd launched";
    case TraceCost::optimizer: return "kernels of Optimizer.step and zero_grad";
    case TraceCost::contention: return "what kernels take longer beside NCCL than the median of the same kernel alone";
    case TraceCost::fill: return "a message runs before the first kernel of a forward or backward, and no computation";
    case TraceCost::drain: return "the same after the last one";
    case TraceCost::imbalance: return "a collective waits for the last of the ranks given, and no computation runs";
    case TraceCost::transfers: return "a message runs between, and no computation; also while it waits for its peer";
    case TraceCost::collectives: return "a collective runs, and no computation";
    case TraceCost::copies:
      return "a copy or a fill runs, and nothing else, or a kernel that copies gradients into a bucket";
    case TraceCost::host: return "nothing runs, and the host has not launched what comes next";
    case TraceCost::waiting: return "nothing runs, though what comes next was launched";
  }
  return "";
}

std::vector<TraceCost> parts_there(const TraceExplanation& explanation) {
  std::vector<TraceCost> parts;
  for (std::size_t p = 0; p < kTraceCosts; ++p) {
    const auto part = static_cast<TraceCost>(p);
    const bool there =
        explanation.path[part] != 0 || std::any_of(explanation.ranks.begin(), explanation.ranks.end(),
                                                   [&](const TraceCosts& costs) { return costs[part] != 0; });
    if (there) parts.push_back(part);
  }
  return parts;
}

Table table_of_parts(const std::vector<TracedStep>& steps, const TraceExplanation& explanation) {
  Table table{.name = "explained_parts", .columns = {{"part", "part", "", "", Align::left}}};
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const std::string rank = std::to_string(steps[s].rank(s));
    table.columns.push_back({"rank_" + rank + "_ms", "rank " + rank, "ms"});
  }
  table.columns.push_back({"critical_path_ms", "critical path", "ms"});
  for (const TraceCost part : parts_there(explanation)) {
    std::vector<TableCell> row = {name_of(part)};
    for (const TraceCosts& costs : explanation.ranks) row.push_back(explained_cell(costs[part]));
    row.push_back(explained_cell(explanation.path[part]));
    table.rows.push_back(std::move(row));
  }
  std::vector<TableCell> sums = {"step"};
  for (const TraceCosts& costs : explanation.ranks) sums.push_back(explained_cell(costs.sum_ns()));
  sums.push_back(explained_cell(explanation.path.sum_ns()));
  table.rows.push_back(std::move(sums));
  return table;
}

Paragraph meanings(const TraceExplanation& explanation) {
  std::string text;
  for (const TraceCost part : parts_there(explanation))
    text += (text.empty() ? "" : "; ") + std::string(name_of(part)) + ": " + meaning_of(part);
  return {text +
          ". The parts of a rank add up to its step, those of the critical path to the time from the first start "
          "of all ranks to the last end, to the nanosecond; the path has transfers and collectives whole, and "
          "contention inside computation."};
}

Table table_of_steps_without(const TraceExplanation& explanation) {
  Table table{.name = "without",
              .title = "The step without a part, by the same graph walked again",
              .columns = {{"what", "without", "", "", Align::left},
                          {"step_time_ms", "step time", "ms"},
                          {"change_ms", "change", "ms"},
                          {"change_percent", "change", "%"}}};
  for (const TraceWithout& without : explanation.without) {
    const double change_ms = explained_ms(without.step_ns - explanation.step_ns);
    const double percent = explanation.step_ns == 0 ? 0 : 100 * change_ms / explained_ms(explanation.step_ns);
    table.rows.push_back({name_of(without.part),
                          explained_cell(without.step_ns),
                          {signed_fixed(change_ms, 3), change_ms},
                          {signed_fixed(percent, 1), percent}});
  }
  return table;
}

std::string text_of(const TracePathSegment& segment) {
  if (segment.activities == 0) return "-";
  const auto shortened = [](const std::string& name) { return name.size() <= 20 ? name : name.substr(0, 17) + "..."; };
  if (segment.activities == 1) return shortened(segment.name);
  return shortened(segment.name) + " to " + shortened(segment.last_name);
}

void add_critical_path(Document& document, const std::vector<TracedStep>& steps, const TraceExplanation& explanation) {
  Table table{.name = "critical_path",
              .title = "The critical path",
              .columns = {{"start_ms", "from", "ms"},
                          {"end_ms", "to", "ms"},
                          {"length_ms", "length", "ms"},
                          {"rank", "rank"},
                          {"part", "part", "", "", Align::left},
                          {"count", "activities"},
                          {"activities", "from which to which", "", "", Align::left}},
              .key_columns = 2};
  std::vector<const TracePathSegment*> longest;
  for (const TracePathSegment& segment : explanation.critical_path) longest.push_back(&segment);
  std::stable_sort(longest.begin(), longest.end(),
                   [](const auto* a, const auto* b) { return a->end_ns - a->start_ns > b->end_ns - b->start_ns; });
  std::int64_t hidden_ns = 0;
  for (std::size_t n = kPathSegmentsShown; n < longest.size(); ++n)
    hidden_ns += longest[n]->end_ns - longest[n]->start_ns;
  const std::size_t hidden = longest.size() - std::min(longest.size(), kPathSegmentsShown);
  longest.resize(longest.size() - hidden);
  std::sort(longest.begin(), longest.end(), [](const auto* a, const auto* b) { return a->start_ns < b->start_ns; });
  for (const TracePathSegment* segment : longest) {
    table.rows.push_back({explained_cell(segment->start_ns), explained_cell(segment->end_ns),
                          explained_cell(segment->end_ns - segment->start_ns),
                          TableCell(std::to_string(steps[segment->rank].rank(segment->rank))), name_of(segment->part),
                          TableCell(std::to_string(segment->activities), static_cast<double>(segment->activities)),
                          TableCell(text_of(*segment))});
  }
  document.add(std::move(table));
  if (hidden > 0)
    document.add(Paragraph{"The path has " + std::to_string(hidden) +
                           " further segments, none of them longer, which take " + milliseconds(hidden_ns) +
                           " ms together."});
}

std::string sentence_about_contention(const TraceExplanation& explanation) {
  KnownContention all;
  for (const KnownContention& of_rank : explanation.contention) {
    all.known += of_rank.known;
    all.all += of_rank.all;
  }
  if (all.all == 0) return "No kernel of computation runs beside NCCL: there is no contention with it.";
  return "Contention is known of " + std::to_string(all.known) + " of the " + std::to_string(all.all) +
         " kernels that run beside NCCL: at least two kernels of the same name and grid ran without NCCL in the trace, "
         "whose median is what they take alone. What the others take longer counts as computation.";
}

void say_what_is_a_guess(Document& document, const std::vector<TracedStep>& steps,
                         const TraceExplanation& explanation) {
  document.add(Paragraph{sentence_about_contention(explanation)});
  if (!explanation.peers_known) {
    const bool collectives = std::any_of(explanation.ranks.begin(), explanation.ranks.end(),
                                         [](const TraceCosts& costs) { return costs[TraceCost::collectives] > 0; });
    if (collectives)
      document.add(
          Paragraph{"Imbalance is not known from one rank: collectives have the waiting for other ranks in them."});
  }
  if (explanation.clocks_guessed)
    document.add(
        Warning{"by the times of the files a collective ends on one rank before it begins on another: the clocks "
                "of all but the first were moved so that collectives end together, in the median: a guess",
                ""});
  document.add(Paragraph{
      "Known of the graph: the order of a stream, the launch of each activity, that NCCL waits for the computation "
      "launched before it, that a collective waits for all ranks given, and that an optimizer waits for collectives. "
      "Guesses: what starts later than these explain waited for what ended last on another stream; the threads of a "
      "host "
      "take turns; a call that waits for the GPU waited for what last ended in it. Waits that the host's time hides "
      "are "
      "not in the graph: without the host the step may take longer than is said."});
  const bool messages = std::any_of(explanation.without.begin(), explanation.without.end(),
                                    [](const TraceWithout& without) { return without.part == TraceCost::transfers; });
  if (messages && steps.size() > 1)
    document.add(
        Paragraph{"Messages are not joined across ranks, as a trace does not say who the peer is: the critical "
                  "path stays on a rank there."});
}

}  // namespace

Document trace_explain_document(const std::vector<TracedStep>& steps, const TraceExplanation& explanation) {
  Document document;
  document.add(Heading{"Where the step goes"});
  document.add(table_of_parts(steps, explanation));
  document.add(meanings(explanation));
  if (!explanation.without.empty()) document.add(table_of_steps_without(explanation));
  add_critical_path(document, steps, explanation);
  say_what_is_a_guess(document, steps, explanation);
  return document;
}

nlohmann::ordered_json trace_explain_json(const std::vector<TracedStep>& steps, const TraceExplanation& explanation) {
  using nlohmann::ordered_json;
  const auto costs_json = [](const TraceCosts& costs) {
    ordered_json out;
    for (std::size_t p = 0; p < kTraceCosts; ++p)
      out[std::string(kTraceCostNames[p]) + "_ms"] = explained_ms(costs.ns[p]);
    return out;
  };
  ordered_json json = {{"step_ms", explained_ms(explanation.step_ns)},
                       {"peers_known", explanation.peers_known},
                       {"clocks_guessed", explanation.clocks_guessed},
                       {"ranks", ordered_json::array()}};
  for (std::size_t s = 0; s < steps.size(); ++s) {
    ordered_json rank = {{"rank", steps[s].rank(s)}, {"step_ms", explained_ms(steps[s].step().duration_ns())}};
    rank.update(costs_json(explanation.ranks[s]));
    rank["kernels_beside_nccl"] = explanation.contention[s].all;
    rank["contention_known_of"] = explanation.contention[s].known;
    json["ranks"].push_back(std::move(rank));
  }
  json["critical_path"] = {{"parts", costs_json(explanation.path)}, {"segments", ordered_json::array()}};
  for (const TracePathSegment& segment : explanation.critical_path)
    json["critical_path"]["segments"].push_back({{"part", name_of(segment.part)},
                                                 {"rank", steps[segment.rank].rank(segment.rank)},
                                                 {"first", segment.name},
                                                 {"last", segment.last_name},
                                                 {"activities", segment.activities},
                                                 {"start_ms", explained_ms(segment.start_ns)},
                                                 {"end_ms", explained_ms(segment.end_ns)}});
  json["without"] = ordered_json::array();
  for (const TraceWithout& without : explanation.without)
    json["without"].push_back({{"what", name_of(without.part)}, {"step_time_ms", explained_ms(without.step_ns)}});
  return json;
}

}  // namespace pdl
