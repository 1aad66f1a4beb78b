// Runs drawn as text, a character a millisecond:
//
//   drawn_run(2, {{0, "aabb....BBBAAAo"},      a b  forward of micro-batch 0, 1     o  optimizer
//                 {0, "..>............"},      A B  backward                        >  send forward
//                 {1, "...aabbBBBAAA.o"}})     .    nothing                         <  send backward
//                                              )    receive forward                 (  receive backward
//
// Several rows may belong to one GPU. Each run of equal characters is one span. One layer of width 4 a GPU, a batch of
// 2 samples a micro-batch, every transfer of 32 bytes.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "sim/run/run_result.hpp"
#include "tests/support/specs.hpp"

namespace pdl {

struct DrawnRow {
  std::int32_t gpu;
  std::string text;
};

inline Span drawn_span(std::int32_t gpu, char c) {
  Span span;
  span.worker = span.stage = gpu;
  if (c == 'o') {
    span.kind = TaskKind::optimizer;
  } else if (c == '>' || c == '<') {
    span.kind = c == '>' ? TaskKind::send_forward : TaskKind::send_backward;
    span.stream = c == '>' ? StreamRole::send_forward : StreamRole::send_backward;
    span.microbatch = 0;
  } else if (c == ')' || c == '(') {
    span.kind = c == ')' ? TaskKind::receive_forward : TaskKind::receive_backward;
    span.stream = c == ')' ? StreamRole::receive_forward : StreamRole::receive_backward;
    span.microbatch = 0;
  } else {
    const bool forward = std::islower(static_cast<unsigned char>(c)) != 0;
    span.kind = forward ? TaskKind::forward : TaskKind::backward;
    span.microbatch = forward ? c - 'a' : c - 'A';
  }
  return span;
}

inline RunResult drawn_run(std::int32_t gpus, const std::vector<DrawnRow>& rows) {
  constexpr std::int64_t kMs = 1'000'000;
  RunResult run;
  std::int32_t microbatches = 1;
  run.timeline.workers = run.timeline.stages = gpus;
  for (const DrawnRow& row : rows) {
    for (std::size_t i = 0; i < row.text.size();) {
      std::size_t end = i + 1;
      while (end < row.text.size() && row.text[end] == row.text[i]) ++end;
      if (row.text[i] != '.') {
        Span span = drawn_span(row.gpu, row.text[i]);
        span.start_ns = static_cast<std::int64_t>(i) * kMs;
        span.end_ns = static_cast<std::int64_t>(end) * kMs;
        microbatches = std::max(microbatches, span.microbatch + 1);
        if (row.text[i] == '>' || row.text[i] == '<') run.transfer_bytes.push_back(32);
        run.timeline.spans.push_back(span);
      }
      i = end;
    }
    run.timeline.step_ns = std::max(run.timeline.step_ns, static_cast<std::int64_t>(row.text.size()) * kMs);
  }
  const std::string n = std::to_string(gpus), m = std::to_string(microbatches);
  run.spec = spec("--dim 4 --depth " + n + " --gpus " + n + " --microbatches " + m + " --batch " +
                  std::to_string(2 * microbatches) + " --schedule gpipe");
  for (std::int32_t g = 0; g < gpus; ++g) run.stages.push_back({{g}, g, 1, 0, 2, microbatches});
  run.replica_rows = {run.spec.batch};
  run.microbatch_rows.assign(static_cast<std::size_t>(microbatches), 2);
  run.step_time.median_ms = static_cast<double>(run.timeline.step_ns) / 1e6;
  return run;
}

}  // namespace pdl
