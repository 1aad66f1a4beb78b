// The spans of a step by GPU, read where they are, each from when it runs.
//
//   GPU 0  F0 F0 send--------          send begins at 2, its receive at 4: the message runs from 4 on, at both ends
//   GPU 1  .. .. .. .. receive
//
//   const SpansOfGpus spans(run.timeline, gpus);
//   spans.for_each(1, [&](const Span& span) { ... spans.start_ns(span) ... });
//
// Spans stand GPU after GPU in most timelines: then nothing is sorted or copied. Units: nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/timeline/timeline.hpp"

namespace pdl {

class SpansOfGpus {
 public:
  /// `timeline` must outlive this. Throws std::out_of_range if a span names a GPU that is not below `gpus`.
  SpansOfGpus(const Timeline& timeline, std::size_t gpus);

  /// When a span begins to run: its start; of a send and a receive that have a counterpart, and of a collective, when
  /// all ends are there. What is before is waiting.
  std::int64_t start_ns(const Span& span) const {
    return starts_ns_.empty() ? span.start_ns : starts_ns_[static_cast<std::size_t>(&span - spans_.data())];
  }

  /// In the order of the timeline.
  template <typename Visit>
  void for_each(std::size_t gpu, Visit visit) const {
    if (order_.empty()) {
      for (std::size_t i = begins_[gpu]; i < begins_[gpu + 1]; ++i) visit(spans_[i]);
    } else {
      for (std::size_t i = begins_[gpu]; i < begins_[gpu + 1]; ++i) visit(spans_[order_[i]]);
    }
  }

  /// Of all spans that take time.
  TaskKinds kinds() const { return kinds_; }

 private:
  void sort_by_gpu(std::size_t gpus);

  const std::vector<Span>& spans_;
  std::vector<std::size_t> begins_;      // by GPU, and their end
  std::vector<std::uint32_t> order_;     // GPU after GPU; empty: as they are
  std::vector<std::int64_t> starts_ns_;  // by span; empty: none waits
  TaskKinds kinds_;
};

/// The spans with those starts. In the order of the timeline.
std::vector<Span> without_waiting(const Timeline& timeline);

}  // namespace pdl
