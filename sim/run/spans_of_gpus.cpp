#include "sim/run/spans_of_gpus.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace pdl {
namespace {

/// What the spans of one exchange have in common. A send and its receive: direction, micro-batch and receiving stage. A
/// collective: its kind, micro-batch and part.
using Message = std::tuple<int, std::int32_t, std::int32_t>;
Message message_of(const Span& span) {
  if (is_collective(span.kind)) return {static_cast<int>(span.kind), span.microbatch, span.part};
  const std::int32_t receiver = is_receive(span.kind) ? span.stage : other_stage(span.kind, span.stage);
  return {carries_activations(span.kind), span.microbatch, receiver};
}

/// Of kinds one of which is there.
std::vector<std::int64_t> starts_of_running_ns(const std::vector<Span>& spans) {
  std::vector<std::int64_t> starts_ns(spans.size());
  std::map<Message, std::size_t> receives;
  std::map<Message, std::int64_t> all_there_ns;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    starts_ns[i] = spans[i].start_ns;
    if (is_receive(spans[i].kind)) receives.emplace(message_of(spans[i]), i);
    if (!is_collective(spans[i].kind)) continue;
    std::int64_t& last_ns = all_there_ns[message_of(spans[i])];
    last_ns = std::max(last_ns, spans[i].start_ns);
  }
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (is_collective(spans[i].kind)) starts_ns[i] = std::min(all_there_ns[message_of(spans[i])], spans[i].end_ns);
    if (receives.empty() || !is_send(spans[i].kind)) continue;
    const auto found = receives.find(message_of(spans[i]));
    if (found == receives.end()) continue;
    const std::size_t receive = found->second;
    const std::int64_t both_ns = std::max(starts_ns[i], starts_ns[receive]);
    starts_ns[i] = std::min(both_ns, spans[i].end_ns);
    starts_ns[receive] = std::min(both_ns, spans[receive].end_ns);
  }
  return starts_ns;
}

}  // namespace

SpansOfGpus::SpansOfGpus(const Timeline& timeline, std::size_t gpus) : spans_(timeline.spans), begins_(gpus + 1, 0) {
  bool in_order = true;
  TaskKinds all;
  std::int32_t last = 0;
  std::size_t of_last = 0;
  for (const Span& span : spans_) {
    if (span.worker != last) {
      begins_.at(static_cast<std::size_t>(last) + 1) += of_last;
      in_order = in_order && last < span.worker;
      last = span.worker;
      of_last = 0;
    }
    ++of_last;
    all.add(span.kind);
    if (span.end_ns > span.start_ns) kinds_.add(span.kind);
  }
  begins_.at(static_cast<std::size_t>(last) + 1) += of_last;
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  if (!in_order) sort_by_gpu(gpus);
  if (all.contains_any_of(kReceives | kCollectives)) starts_ns_ = starts_of_running_ns(spans_);
}

void SpansOfGpus::sort_by_gpu(std::size_t gpus) {
  order_.resize(spans_.size());
  std::vector<std::size_t> next(begins_.begin(), begins_.begin() + static_cast<std::ptrdiff_t>(gpus));
  for (std::size_t i = 0; i < spans_.size(); ++i)
    order_[next[static_cast<std::size_t>(spans_[i].worker)]++] = static_cast<std::uint32_t>(i);
}

std::vector<Span> without_waiting(const Timeline& timeline) {
  const SpansOfGpus running(timeline, static_cast<std::size_t>(timeline.workers));
  std::vector<Span> spans = timeline.spans;
  for (std::size_t i = 0; i < spans.size(); ++i) spans[i].start_ns = running.start_ns(timeline.spans[i]);
  return spans;
}

}  // namespace pdl
