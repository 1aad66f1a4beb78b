// A run, or a predicted and a measured one, as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open: JSON
// of the Trace Event Format.
//
//   write_trace("a.json", traced_runs(run));
//   write_trace("both.json", traced_runs(predicted, measured));
//
//   process                    thread           what is on it
//   predicted                  step             one slice, the step; the counter "GPUs computing"
//   GPU 0, predicted           compute          slices F0, B0, optimizer, ...; counters of memory (bytes)
//                              send forward     slices, with an arrow to the receive or to what waits for it
//   GPU 0, measured            ...              beside the predicted one of the same GPU
//
// A slice has the arguments kind, stream (the number of its thread; Holistic Trace Analysis knows work of a GPU by it),
// stage, and, where it has them, microbatch, layers (first-last), rows, bytes, part.
// Slices of one stream that overlap are on threads of their own: "compute", "compute 2". A collective has an arrow from
// each GPU to the one that joined last, for which they wait. A span of 2 ns or less has no arrow.
//
// Written as it goes: beside the run, a million spans take some 100 MB for their order and arrows. Whole nanoseconds
// survive: "ts" and "dur" are microseconds with three decimals, from the start of the step. Not here: what the numbers
// mean (sim/run), CUDA's own traces.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/run/run_result.hpp"

namespace pdl {

struct TracedRun {
  const RunResult& run;
  std::string name;  // "predicted"; any bytes
};

/// Named "predicted" or "measured"; where two are alike "A, predicted" and "B, predicted". They refer to the runs.
std::vector<TracedRun> traced_runs(const RunResult& run);
std::vector<TracedRun> traced_runs(const RunResult& a, const RunResult& b);

/// Runs begin at one moment, 0. Throws std::logic_error without runs.
void write_trace(std::ostream& out, const std::vector<TracedRun>& runs);

/// The same into a file, whole or not at all; "-": the standard output. Throws InputError if it cannot be written.
void write_trace(const std::string& path, const std::vector<TracedRun>& runs);

}  // namespace pdl
