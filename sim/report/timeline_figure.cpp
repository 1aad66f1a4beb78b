#include "sim/report/timeline_figure.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "sim/io/number_text.hpp"
#include "sim/report/gantt.hpp"
#include "sim/report/run_document.hpp"
#include "sim/run/metrics.hpp"

namespace pdl {
namespace {

using Json = nlohmann::ordered_json;

/// How a kind of task is called, and what its name on the chart is made of: prefix, stage where needed, letter and
/// micro-batch; where there is no letter, the prefix and for kinds in parts their number. Kinds of one family have one
/// colour.
struct KindOnPage {
  const char* name;
  const char* family;
  const char* prefix;
  const char* letter;
  bool parts;
};

constexpr std::array<KindOnPage, kTaskKinds> kKindsOnPage = {{
    {"forward", "forward", "", "F", false},
    {"backward", "backward", "", "B", false},
    {"input gradient", "input gradient", "", "I", false},
    {"weight gradient", "weight gradient", "", "W", false},
    {"recomputation of the forward", "recomputation", "", "R", false},
    {"optimizer", "optimizer", "optimizer", "", false},
    {"send of activations", "transfer", "send ", "F", false},
    {"send of gradients", "transfer", "send ", "B", false},
    {"receive of activations", "transfer", "receive ", "F", false},
    {"receive of gradients", "transfer", "receive ", "B", false},
    {"all-reduce", "collective", "all-reduce", "", true},
    {"broadcast", "collective", "broadcast", "", true},
    {"reduce", "collective", "reduce", "", true},
    {"scatter", "transfer", "scatter", "", true},
    {"gather", "transfer", "gather", "", true},
    {"copy of gradients into bucket", "bucket copy", "bucket in", "", true},
    {"copy of gradients out of bucket", "bucket copy", "bucket out", "", true},
    {"loss", "loss", "loss", "", false},
    {"division of gradients", "optimizer", "scale gradients", "", false},
    {"delay on the host", "host delay", "sleep", "", false},
}};
static_assert(kKindsOnPage.back().name != nullptr, "every kind of task has its words");

std::string page_word(StreamRole stream) {
  return stream == StreamRole::none ? "host" : to_string(stream);
}

/// Spans of one run that are drawn, before anything is merged: indices into its timeline, by row.
struct FullRow {
  std::int32_t gpu = 0;
  StreamRole stream = StreamRole::compute;
  std::size_t lane = 0;
  std::size_t run = 0;
  std::vector<std::size_t> spans{};
};

/// Each span into the first row of its stream that is free by its start.
std::vector<FullRow> rows_of_run(const Timeline& timeline, std::size_t run, const std::vector<bool>& drawn_gpus) {
  std::map<std::pair<std::int32_t, StreamRole>, std::vector<std::size_t>> of_stream;
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const Span& span = timeline.spans[i];
    if (span.end_ns <= span.start_ns || !drawn_gpus.at(static_cast<std::size_t>(span.worker))) continue;
    of_stream[{span.worker, span.stream}].push_back(i);
  }
  std::vector<FullRow> rows;
  for (auto& [key, spans] : of_stream) {
    std::stable_sort(spans.begin(), spans.end(), [&](std::size_t a, std::size_t b) {
      return timeline.spans[a].start_ns < timeline.spans[b].start_ns;
    });
    const std::size_t first = rows.size();
    std::vector<std::int64_t> free_ns;
    for (const std::size_t i : spans) {
      std::size_t lane = 0;
      while (lane < free_ns.size() && free_ns[lane] > timeline.spans[i].start_ns) ++lane;
      if (lane == free_ns.size()) {
        free_ns.push_back(0);
        rows.push_back({key.first, key.second, lane, run, {}});
      }
      free_ns[lane] = timeline.spans[i].end_ns;
      rows[first + lane].spans.push_back(i);
    }
  }
  return rows;
}

bool by_gpu_stream_run(const FullRow& a, const FullRow& b) {
  return std::tuple(a.gpu, a.stream, a.run, a.lane) < std::tuple(b.gpu, b.stream, b.run, b.lane);
}

/// A span that is shorter than `length`, cut at the ends of intervals of that length.
void add_shares(std::map<std::pair<std::int64_t, TaskKind>, std::int64_t>& shares, const Span& span,
                std::int64_t length) {
  for (std::int64_t at = span.start_ns; at < span.end_ns;) {
    const std::int64_t interval = at / length;
    const std::int64_t end = std::min(span.end_ns, (interval + 1) * length);
    shares[{interval, span.kind}] += end - at;
    at = end;
  }
}

/// How many spans and shares a row becomes where spans shorter than `length` are merged.
std::size_t items_of_row(const FullRow& row, const Timeline& timeline, std::int64_t length) {
  std::size_t items = 0;
  std::array<std::int64_t, kTaskKinds> last;  // interval of the last share of each kind
  last.fill(-1);
  for (const std::size_t i : row.spans) {
    const Span& span = timeline.spans[i];
    if (span.end_ns - span.start_ns >= length) {
      ++items;
      continue;
    }
    std::int64_t& of_kind = last[static_cast<std::size_t>(span.kind)];
    const std::int64_t from = span.start_ns / length, to = (span.end_ns - 1) / length;
    items += static_cast<std::size_t>(to - std::max(from, of_kind + 1) + 1);
    of_kind = to;
  }
  return items;
}

/// The shortest of 100 ns, 200 ns, 400 ns, ... with which at most `most` items are left; 0 where there are no more.
std::int64_t length_to_merge(const std::vector<FullRow>& rows, const std::vector<TimelineRun>& runs, std::size_t most) {
  std::size_t all = 0;
  for (const FullRow& row : rows) all += row.spans.size();
  if (all <= most) return 0;
  for (std::int64_t length = 100;; length *= 2) {
    std::size_t items = 0;
    for (const FullRow& row : rows) items += items_of_row(row, runs[row.run].run->timeline, length);
    if (items <= most || length > (std::int64_t{1} << 50)) return length;
  }
}

/// The first of the spans that each span began after which is drawn: indices among the drawn ones of its run.
class BeganAfter {
 public:
  BeganAfter(const TimelineRun& run, std::vector<std::int32_t> drawn) : run_(run), drawn_(std::move(drawn)) {}
  std::int32_t of(std::size_t span) const {
    if (run_.began_after.empty()) return -1;
    for (std::size_t steps = 0; steps < drawn_.size(); ++steps) {
      const std::int32_t after = run_.began_after[span];
      if (after < 0) return -1;
      span = static_cast<std::size_t>(after);
      if (drawn_[span] >= 0) return drawn_[span];
      if (run_.run->timeline.spans[span].end_ns > run_.run->timeline.spans[span].start_ns) return -1;  // merged
    }
    return -1;
  }

 private:
  const TimelineRun& run_;
  std::vector<std::int32_t> drawn_;  // of each span of the timeline its index on the page; -1: it has none
};

/// Indices on the page of the spans of a run, row after row.
std::vector<std::int32_t> indices_on_page(const std::vector<FullRow>& rows, std::size_t run, const Timeline& timeline,
                                          std::int64_t length) {
  std::vector<std::int32_t> indices(timeline.spans.size(), -1);
  std::int32_t next = 0;
  for (const FullRow& row : rows) {
    if (row.run != run) continue;
    for (const std::size_t i : row.spans) {
      if (timeline.spans[i].end_ns - timeline.spans[i].start_ns >= length) indices[i] = next++;
    }
  }
  return indices;
}

TimelineRow drawn_row(const FullRow& full, const RunResult& run, const std::vector<Span>& running,
                      const BeganAfter& began_after, std::int64_t length) {
  TimelineRow row{.run = full.run, .gpu = full.gpu, .stream = full.stream};
  row.several_stages = holds_several_stages(run).at(static_cast<std::size_t>(full.gpu));
  const auto stages = static_cast<std::int32_t>(
      std::max<std::size_t>(run.stages.size() / std::max<std::size_t>(run.replica_rows.size(), 1), 1));
  std::map<std::pair<std::int64_t, TaskKind>, std::int64_t> shares;
  for (const std::size_t i : full.spans) {
    const Span& span = run.timeline.spans[i];
    if (span.end_ns - span.start_ns < length) {
      add_shares(shares, span, length);
      continue;
    }
    row.spans.push_back({span.kind, span.stage % stages, span.microbatch, span.part, span.start_ns,
                         span.end_ns - span.start_ns, running[i].start_ns - span.start_ns, began_after.of(i)});
  }
  for (const auto& [key, busy_ns] : shares) row.shares.push_back({key.first, key.second, busy_ns});
  return row;
}

std::vector<std::string> run_names(const std::vector<TimelineRun>& runs) {
  std::vector<const RunResult*> results;
  for (const TimelineRun& run : runs) results.push_back(run.run);
  return names_of_runs(results);
}

/// One number where all are equal, else a column.
template <typename Value>
Json column(const std::vector<DrawnSpan>& spans, Value value) {
  Json numbers = Json::array();
  bool equal = true;
  for (const DrawnSpan& span : spans) {
    numbers.push_back(value(span));
    equal = equal && numbers.back() == numbers.front();
  }
  return equal && !spans.empty() ? numbers.front() : numbers;
}

Json row_json(const TimelineRow& row, std::int32_t first_index) {
  std::int64_t end_ns = 0;
  std::int32_t index = first_index;
  Json starts = Json::array(), intervals = Json::array(), kinds = Json::array(), busy = Json::array();
  for (const DrawnSpan& span : row.spans) {
    starts.push_back(span.start_ns - end_ns);
    end_ns = span.start_ns + span.duration_ns;
  }
  for (const DrawnShare& share : row.shares) {
    intervals.push_back(share.interval);
    kinds.push_back(static_cast<int>(share.kind));
    busy.push_back(share.busy_ns);
  }
  return {{"run", row.run},
          {"gpu", row.gpu},
          {"stream", page_word(row.stream)},
          {"several_stages", row.several_stages},
          {"kind", column(row.spans, [](const DrawnSpan& s) { return static_cast<int>(s.kind); })},
          {"stage", column(row.spans, [](const DrawnSpan& s) { return s.stage; })},
          {"microbatch", column(row.spans, [](const DrawnSpan& s) { return s.microbatch; })},
          {"part", column(row.spans, [](const DrawnSpan& s) { return s.part; })},
          {"gap_ns", starts},
          {"duration_ns", column(row.spans, [](const DrawnSpan& s) { return s.duration_ns; })},
          {"waiting_ns", column(row.spans, [](const DrawnSpan& s) { return s.waiting_ns; })},
          {"began_after", column(row.spans,
                                 [&](const DrawnSpan& s) {
                                   const std::int32_t own = index++;
                                   return s.began_after < 0 ? 0 : s.began_after - own;
                                 })},
          {"share_interval", intervals},
          {"share_kind", kinds},
          {"share_ns", busy}};
}

}  // namespace

TimelineData timeline_data(const std::vector<TimelineRun>& runs, const TimelineLimits& limits) {
  TimelineData data;
  for (const TimelineRun& run : runs) {
    data.end_ns = std::max(data.end_ns, run.run->timeline.step_ns);
    data.gpus = std::max(data.gpus, run.run->timeline.workers);
  }
  const std::vector<std::size_t> shown = shown_rows(static_cast<std::size_t>(data.gpus), limits.most_gpus);
  data.drawn_gpus = static_cast<std::int32_t>(shown.size());
  std::vector<bool> drawn_gpus(static_cast<std::size_t>(data.gpus), false);
  for (const std::size_t gpu : shown) drawn_gpus[gpu] = true;

  std::vector<FullRow> rows;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    for (FullRow& row : rows_of_run(runs[r].run->timeline, r, drawn_gpus)) rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), by_gpu_stream_run);
  const std::int64_t length = length_to_merge(rows, runs, limits.most_items);
  data.merged_below_ns = length;

  std::vector<std::vector<Span>> running;
  std::vector<BeganAfter> began_after;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    running.push_back(without_waiting(runs[r].run->timeline));
    began_after.emplace_back(runs[r], indices_on_page(rows, r, runs[r].run->timeline, length));
  }
  for (const FullRow& row : rows) {
    data.rows.push_back(drawn_row(row, *runs[row.run].run, running[row.run], began_after[row.run], length));
    data.spans += row.spans.size();
    data.merged += row.spans.size() - data.rows.back().spans.size();
  }
  return data;
}

std::string timeline_summary(const TimelineData& data, const std::vector<TimelineRun>& runs) {
  const std::vector<std::string> names = run_names(runs);
  std::string text = std::to_string(data.gpus) + (data.gpus == 1 ? " GPU, " : " GPUs, ") +
                     grouped(static_cast<std::int64_t>(data.spans)) + " tasks; the step takes ";
  for (std::size_t r = 0; r < runs.size(); ++r)
    text += (r == 0 ? "" : " and ") + milliseconds(step_ns(*runs[r].run)) + " ms (" + names[r] + ")";
  text += ".";
  if (data.drawn_gpus < data.gpus)
    text += " The first and the last GPUs are drawn, " + std::to_string(data.drawn_gpus) + " of them.";
  if (data.merged > 0)
    text +=
        " Tasks shorter than " + milliseconds(data.merged_below_ns) + " ms, " +
        grouped(static_cast<std::int64_t>(data.merged)) +
        " of them, are merged: of each interval of that length, the height of a colour is the share of time that its "
        "kind of task takes.";
  return text;
}

Json timeline_json(const TimelineData& data, const std::vector<TimelineRun>& runs) {
  Json kinds = Json::array(), rows = Json::array();
  for (const KindOnPage& kind : kKindsOnPage)
    kinds.push_back({{"name", kind.name},
                     {"family", kind.family},
                     {"prefix", kind.prefix},
                     {"letter", kind.letter},
                     {"parts", kind.parts}});
  std::vector<std::int32_t> next(runs.size(), 0);
  for (const TimelineRow& row : data.rows) {
    rows.push_back(row_json(row, next[row.run]));
    next[row.run] += static_cast<std::int32_t>(row.spans.size());
  }
  return {{"type", "timeline"},      {"end_ns", data.end_ns}, {"merged_below_ns", data.merged_below_ns},
          {"runs", run_names(runs)}, {"kinds", kinds},        {"rows", rows}};
}

}  // namespace pdl
