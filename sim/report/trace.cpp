#include "sim/report/trace.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "sim/io/output_file.hpp"
#include "sim/report/run_document.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/memory_over_time.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/plan_of_run.hpp"
#include "sim/run/span_kinds.hpp"

namespace pdl {
namespace {

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// Microseconds with all nanoseconds: 1234 -> "1.234".
std::string trace_us(std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%" PRId64 ".%03" PRId64, ns / 1000, ns % 1000);
  return text;
}

/// The list of events, with the commas between them.
class TraceEvents {
 public:
  explicit TraceEvents(std::ostream& out) : out_(out) { out_ << "{\"displayTimeUnit\": \"ns\", \"traceEvents\": ["; }
  void end() { out_ << "\n]}\n"; }

  /// The number of an arrow, one of the file; Perfetto takes whole numbers alone.
  std::int64_t next_arrow() { return ++arrows_; }

  /// The stream behind the comma, for one object.
  std::ostream& next() { return out_ << (std::exchange(first_, false) ? "\n" : ",\n"); }

  /// "process_name", "thread_name": with their place among the others.
  void name(const char* what, std::int64_t pid, std::int64_t tid, const std::string& name, std::int64_t place) {
    const std::string kind(what);
    for (const auto& [event, key, value] : {std::tuple{kind + "_name", "name", json_string(name)},
                                            {kind + "_sort_index", "sort_index", std::to_string(place)}}) {
      next() << R"({"ph": "M", "pid": )" << pid << R"(, "tid": )" << tid << R"(, "name": ")" << event
             << R"(", "args": {")" << key << R"(": )" << value << "}}";
    }
  }

 private:
  std::ostream& out_;
  bool first_ = true;
  std::int64_t arrows_ = 0;
};

/// Where a span is drawn: the number of its thread in the file.
struct TraceThreads {
  std::vector<std::uint32_t> of_span;
  struct Thread {
    std::int32_t gpu = 0;
    StreamRole stream = StreamRole::compute;
    std::size_t lane = 0;  // of several spans of the stream at once
  };
  std::vector<Thread> threads;
};

/// Spans by start, those that begin together with the longest first, as slices are nested.
std::vector<std::uint32_t> spans_by_start(const Timeline& timeline) {
  std::vector<std::uint32_t> order(timeline.spans.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const Span &x = timeline.spans[a], &y = timeline.spans[b];
    return std::pair(x.start_ns, y.end_ns) < std::pair(y.start_ns, x.end_ns);
  });
  return order;
}

/// Each span on the first lane of its stream that is free.
TraceThreads threads_of(const Timeline& timeline, const std::vector<std::uint32_t>& order) {
  struct TraceLane {
    std::uint32_t thread = 0;
    std::int64_t free_ns = 0;
  };
  std::map<std::pair<std::int32_t, StreamRole>, std::vector<TraceLane>> lanes;
  TraceThreads out;
  out.of_span.resize(timeline.spans.size());
  for (const std::uint32_t s : order) {
    const Span& span = timeline.spans[s];
    std::vector<TraceLane>& of_stream = lanes[{span.worker, span.stream}];
    auto lane = std::find_if(of_stream.begin(), of_stream.end(),
                             [&](const TraceLane& candidate) { return candidate.free_ns <= span.start_ns; });
    if (lane == of_stream.end()) {
      out.threads.push_back({span.worker, span.stream, of_stream.size()});
      of_stream.push_back({static_cast<std::uint32_t>(out.threads.size() - 1), 0});
      lane = of_stream.end() - 1;
    }
    lane->free_ns = span.end_ns;
    out.of_span[s] = lane->thread;
  }
  return out;
}

struct Arrow {
  std::uint32_t from = 0, to = 0;  // spans
};

/// What uses that which has arrived. Nothing is found where another stage of the GPU does.
std::optional<std::uint32_t> user_of(const Plan& plan, std::uint32_t receive) {
  const std::vector<Task>& tasks = plan.graph.tasks;
  const Task& arrived = tasks[receive];
  for (std::uint32_t t = receive + 1; t < tasks.size(); ++t) {
    const bool same = tasks[t].worker == arrived.worker && tasks[t].stage == arrived.stage &&
                      tasks[t].microbatch == arrived.microbatch;
    if (same && is_compute(tasks[t].kind)) return t;
  }
  return std::nullopt;
}

/// Of tasks that end together: from those that send to those that receive, or, where the receive waited for the send,
/// to what waited for the receive; in a collective from each GPU to the one that joined last. So each arrow goes from a
/// slice to one that begins later: Perfetto turns the others round.
void add_arrows_of_group(const Plan& plan, const Timeline& timeline, const std::vector<std::uint32_t>& tasks,
                         std::vector<Arrow>& arrows) {
  const auto starts_before = [&](std::uint32_t a, std::uint32_t b) {
    return timeline.spans[a].start_ns < timeline.spans[b].start_ns;
  };
  if (is_collective(plan.graph.tasks[tasks.front()].kind)) {
    const std::uint32_t last = *std::max_element(tasks.begin(), tasks.end(), starts_before);
    for (const std::uint32_t t : tasks) {
      if (t != last) arrows.push_back({t, last});
    }
    return;
  }
  const auto receives = [&](std::uint32_t t) {
    const Task& task = plan.graph.tasks[t];
    return is_receive(task.kind) || plan.graph.works[task.work].receives;
  };
  for (const std::uint32_t from : tasks) {
    for (const std::uint32_t to : tasks) {
      if (receives(from) || !receives(to)) continue;
      const auto user = starts_before(from, to) ? std::nullopt : user_of(plan, to);
      arrows.push_back({from, user.value_or(to)});
    }
  }
}

/// A copy has no task at its other end: an arrow to the first task there that waits for it.
void add_arrow_of_copy(const Plan& plan, std::uint32_t copy, std::vector<Arrow>& arrows) {
  const TaskGraph& graph = plan.graph;
  const std::int32_t receiver = graph.works[graph.tasks[copy].work].to_worker;
  for (const TaskId waiting : graph.edges.after(copy)) {
    if (graph.tasks[waiting].worker != receiver) continue;
    arrows.push_back({copy, waiting});
    return;
  }
}

std::vector<Arrow> arrows_of(const Plan& plan, const Timeline& timeline) {
  std::vector<std::vector<std::uint32_t>> groups(plan.graph.groups);
  std::vector<Arrow> arrows;
  for (std::uint32_t t = 0; t < plan.graph.tasks.size(); ++t) {
    const Task& task = plan.graph.tasks[t];
    if (!is_communication(task.kind)) continue;
    if (task.group != kNone) {
      groups[task.group].push_back(t);
    } else if (is_send(task.kind)) {
      add_arrow_of_copy(plan, t, arrows);
    }
  }
  for (const std::vector<std::uint32_t>& tasks : groups) {
    if (tasks.size() > 1) add_arrows_of_group(plan, timeline, tasks, arrows);
  }
  return arrows;
}

/// One run in the file: numbers of its processes and threads, and its events.
class TraceOfRun {
 public:
  /// `index` of `count` runs. Numbers of threads begin at `first_tid`.
  TraceOfRun(TraceEvents& events, const TracedRun& traced, std::int64_t index, std::int64_t count,
             std::int64_t first_tid)
      : events_(events),
        run_(traced.run),
        name_(traced.name),
        index_(index),
        count_(count),
        first_tid_(first_tid),
        plan_(plan_of_run(traced.run)),
        named_layers_(has_blocks(traced.run.spec.model)),
        order_(spans_by_start(traced.run.timeline)),
        threads_(threads_of(traced.run.timeline, order_)) {}

  void write() {
    write_names();
    write_step();
    write_slices();
    if (plan_) write_arrows();
    write_gpus_computing();
    write_memory();
  }

  /// The first number that is free behind this run's.
  std::int64_t next_tid() const { return first_tid_ + 1 + std::ssize(threads_.threads); }

 private:
  std::int64_t pid_of_run() const { return index_ + 1; }
  /// A GPU of one run beside the same one of the other.
  std::int64_t pid_of_gpu(std::int64_t gpu) const { return count_ * (gpu + 1) + index_ + 1; }
  std::int64_t tid(std::uint32_t span) const { return first_tid_ + 1 + threads_.of_span[span]; }

  void write_names() {
    events_.name("process", pid_of_run(), first_tid_, name_, pid_of_run());
    events_.name("thread", pid_of_run(), first_tid_, "step", 0);
    for (std::int64_t g = 0; g < run_.spec.gpus; ++g)
      events_.name("process", pid_of_gpu(g), first_tid_, "GPU " + std::to_string(g) + ", " + name_, pid_of_gpu(g));
    for (std::size_t t = 0; t < threads_.threads.size(); ++t) {
      const TraceThreads::Thread& thread = threads_.threads[t];
      const std::string stream = thread.stream == StreamRole::none ? "without a stream" : to_string(thread.stream);
      events_.name("thread", pid_of_gpu(thread.gpu), first_tid_ + 1 + static_cast<std::int64_t>(t),
                   stream + (thread.lane == 0 ? "" : " " + std::to_string(thread.lane + 1)),
                   static_cast<std::int64_t>(thread.stream) * 100 + static_cast<std::int64_t>(thread.lane));
    }
  }

  std::ostream& begin_event(const char* phase, std::int64_t pid, std::int64_t tid, std::int64_t at_ns) {
    return events_.next() << R"({"ph": ")" << phase << R"(", "pid": )" << pid << R"(, "tid": )" << tid << R"(, "ts": )"
                          << trace_us(at_ns);
  }

  void write_step() {
    begin_event("X", pid_of_run(), first_tid_, 0)
        << R"(, "dur": )" << trace_us(run_.timeline.step_ns) << R"(, "name": "step", "cat": "step", "args": {"run": )"
        << json_string(name_) << R"(, "settings": )" << json_string(describe(run_.spec)) << "}}";
  }

  void write_slices() {
    const std::vector<bool> several = holds_several_stages(run_);
    for (const std::uint32_t s : order_) {
      const Span& span = run_.timeline.spans[s];
      const char* kind = kSpanKinds[static_cast<std::size_t>(span.kind)];
      std::ostream& out = begin_event("X", pid_of_gpu(span.worker), tid(s), span.start_ns);
      out << R"(, "dur": )" << trace_us(span.end_ns - span.start_ns) << R"(, "name": ")"
          << span_name(run_, span, several[static_cast<std::size_t>(span.worker)]) << R"(", "cat": ")" << kind
          << R"(", "args": {"kind": ")" << kind << R"(", "stream": )" << tid(s) << R"(, "stage": )" << span.stage;
      if (span.microbatch >= 0) out << R"(, "microbatch": )" << span.microbatch;
      if (span.part > 0) out << R"(, "part": )" << span.part;
      if (plan_) write_work(out, plan_->graph.works[plan_->graph.tasks[s].work]);
      out << "}}";
    }
  }

  void write_work(std::ostream& out, const Work& work) {
    if (work.layer_count > 0) out << R"(, "layers": ")" << layers_of(work) << '"';
    if (work.rows > 0) out << R"(, "rows": )" << work.rows;
    if (work.bytes > 0) out << R"(, "bytes": )" << work.bytes;
  }

  /// Of many tasks the same.
  const std::string& layers_of(const Work& work) {
    std::string& text = layer_ranges_[{work.first_layer, work.layer_count}];
    if (text.empty()) {
      text = named_layers_
                 ? layer_range(run_.spec.model, work.first_layer, work.layer_count)
                 : std::to_string(work.first_layer) + "-" + std::to_string(work.first_layer + work.layer_count - 1);
    }
    return text;
  }

  /// From behind the first nanosecond of the one to before the last of the other: an end at the edge of a slice may be
  /// taken for the neighbour's.
  void write_arrows() {
    for (const Arrow& arrow : arrows_of(*plan_, run_.timeline)) {
      const Span &from = run_.timeline.spans[arrow.from], &to = run_.timeline.spans[arrow.to];
      const std::int64_t begin_ns = from.start_ns + 1, end_ns = to.end_ns - 1;
      if (begin_ns >= from.end_ns || end_ns <= to.start_ns || end_ns <= begin_ns) continue;
      const std::int64_t number = events_.next_arrow();
      const char* category = is_collective(from.kind) ? "collective" : "transfer";
      for (const bool begins : {true, false}) {
        begin_event(begins ? "s" : "f", pid_of_gpu((begins ? from : to).worker), tid(begins ? arrow.from : arrow.to),
                    begins ? begin_ns : end_ns)
            << (begins ? "" : R"(, "bp": "e")") << R"(, "id": )" << number << R"(, "name": ")" << category
            << R"(", "cat": ")" << category << R"("})";
      }
    }
  }

  void write_gpus_computing() {
    std::vector<std::pair<std::int64_t, std::int32_t>> changes;  // when, +1 or -1 for a GPU: +gpu + 1 or -gpu - 1
    for (const Span& span : run_.timeline.spans) {
      if (!is_compute(span.kind) || span.end_ns == span.start_ns) continue;
      changes.emplace_back(span.start_ns, span.worker + 1);
      changes.emplace_back(span.end_ns, -span.worker - 1);
    }
    std::sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::int32_t> tasks(static_cast<std::size_t>(run_.spec.gpus), 0);
    std::int64_t computing = 0, written = 0;
    write_counter(0, 0);
    for (std::size_t i = 0; i < changes.size();) {
      const std::int64_t at_ns = changes[i].first;
      for (; i < changes.size() && changes[i].first == at_ns; ++i) {
        std::int32_t& of_gpu = tasks[static_cast<std::size_t>(std::abs(changes[i].second) - 1)];
        const bool before = of_gpu > 0;
        of_gpu += changes[i].second > 0 ? 1 : -1;
        computing += (of_gpu > 0) - before;
      }
      if (computing == written) continue;
      write_counter(at_ns, computing);
      written = computing;
    }
  }

  void write_counter(std::int64_t at_ns, std::int64_t computing) {
    begin_event("C", pid_of_run(), first_tid_, at_ns)
        << R"(, "name": "GPUs computing", "args": {"GPUs": )" << computing << "}}";
  }

  void write_memory() {
    const std::vector<GpuMemoryOverTime> memory = memory_over_time(run_);
    for (std::size_t g = 0; g < memory.size(); ++g) {
      for (const MemorySample& sample : memory[g].samples) {
        std::ostream& out = begin_event("C", pid_of_gpu(static_cast<std::int64_t>(g)), first_tid_, sample.time_ns);
        out << R"json(, "name": "memory (bytes)", "args": {)json";
        for (std::size_t c = 0; c < kMemoryCategories; ++c) {
          out << (c == 0 ? "\"" : ", \"") << to_string(static_cast<MemoryCategory>(c)) << R"(": )" << sample.bytes[c];
        }
        out << "}}";
      }
    }
  }

  TraceEvents& events_;
  const RunResult& run_;
  std::string name_;
  std::int64_t index_, count_, first_tid_;
  std::optional<Plan> plan_;
  bool named_layers_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::string> layer_ranges_;  // by first layer and count
  std::vector<std::uint32_t> order_;
  TraceThreads threads_;
};

}  // namespace

std::vector<TracedRun> traced_runs(const RunResult& run) {
  return {{run, names_of_runs({&run})[0]}};
}

std::vector<TracedRun> traced_runs(const RunResult& a, const RunResult& b) {
  const std::vector<std::string> names = names_of_runs({&a, &b});
  return {{a, names[0]}, {b, names[1]}};
}

void write_trace(std::ostream& out, const std::vector<TracedRun>& runs) {
  if (runs.empty()) throw std::logic_error("a trace of no runs");
  TraceEvents events(out);
  std::int64_t tid = 1;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    TraceOfRun trace(events, runs[r], static_cast<std::int64_t>(r), std::ssize(runs), tid);
    trace.write();
    tid = trace.next_tid();
  }
  events.end();
}

void write_trace(const std::string& path, const std::vector<TracedRun>& runs) {
  write_output(path, [&](std::ostream& out) { write_trace(out, runs); });
}

}  // namespace pdl
