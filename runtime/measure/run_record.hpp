// What one process knows of a measured run, as text for worker 0, and the records of all processes joined.
//
//   std::vector<std::string> all = rendezvous.gather("record", pack(record));
//   for (std::size_t r = 1; r < all.size(); ++r) join(record, unpack(all[r]));
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/trace/span_recorder.hpp"

namespace pdl {

struct StepInterval {
  std::int64_t begin_ns = 0;  // of the host's steady clock, or since the barrier
  std::int64_t end_ns = 0;
  bool skipped = false;  // its gradients were not finite
};

struct RecordedInterval {
  StepInterval step;
  RecordedStep tasks;
};

/// What one process knows of a run. Lists by worker are in the order of the workers.
struct RunRecord {
  std::vector<StepInterval> warmup;
  std::vector<StepInterval> steps;
  std::vector<RecordedInterval> recorded;
  std::vector<double> losses;                   // empty: this process holds no last stage; else its part of each
  std::vector<std::int64_t> skipped;            // steps, by their place in `losses`
  std::vector<std::int64_t> peak_memory_bytes;  // of its own workers; empty on CPU
  std::vector<std::int64_t> process_peak_memory_bytes;  // one a process; empty on GPUs
  std::vector<std::string> cards;                       // of its own workers; empty on CPU
  /// Of its own workers: describe_gpus() (runtime/measure/environment.hpp).
  nlohmann::json gpus = nlohmann::json::array();
};

std::string pack(const RunRecord& record);
RunRecord unpack(const std::string& text);
/// What pack() has packed, as JSON; a program of another language writes it too (runtime/pytorch/train.py).
RunRecord record_from(const nlohmann::json& json);

/// Adds what another process, of later workers, knows: its tasks, its losses, its devices.
void join(RunRecord& into, const RunRecord& other);

}  // namespace pdl
