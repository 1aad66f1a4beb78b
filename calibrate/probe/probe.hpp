// Measures this host: layers, loss, optimizer, buckets, transfers, collectives, host. What pdl-calibrate does before it
// fits.
//
//   ProbeOptions options;
//   options.gpus = 4;
//   Samples samples = probe_host(options);      // raw; a profile is made of them by calibrate/fit/fit.hpp
//
//   options.plan = {{"depth", "20", "--depth"}, {"dim", "5120", "--dim"}};
//   probe_host(options)                         // the layers, losses and optimizers of this step as well
//   options.beside = &known;
//   probe_host(options)                         // these alone, as far as `known` has not measured them
//
// It is made of parts (calibrate/probe/probe_part.hpp), one after another; the journal has every sample as it comes,
// and a calibration that was interrupted goes on with the first part that is not complete.
// No Torch in this header: the tool includes it with and without the probes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calibrate/fit/samples.hpp"
#include "sim/model/dtype.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

struct ProbeOptions {
  std::string device = "cuda";  // cuda or cpu
  std::int64_t gpus = 0;        // GPUs, or workers on CPU; 0: all GPUs there are, 2 on CPU
  /// Empty lists: what suits the device, chosen by the probe.
  std::vector<std::int64_t> dims;  // width of square layers
  std::vector<std::int64_t> rows;  // samples of a micro-batch
  std::vector<Dtype> dtypes;       // the pipeline's stages have fp32 and tf32 only
  /// Of all but fp32; empty: 1024, 4096, 8192 where `dims` is left open, else `dims`.
  std::vector<std::int64_t> tensor_core_dims;
  /// Fewer only in the one-thread programs; 0: 32 on CUDA where `rows` is left open.
  std::int64_t least_pipeline_rows = 0;
  /// Layers between the widths of `dims` and some that are not square, of fp32; of each other type two thirds as many.
  /// -1: 24 on CUDA where `dims` and `rows` are left open, else none.
  std::int64_t random_shapes = -1;
  bool transformers = false;  // what they are made of too; on CUDA always, where `dims` and `rows` are left open
  std::vector<std::string> optimizers;  // sgd, adam, adamw, adamw-fused
  std::vector<std::string> transports;  // copy, nccl, gloo
  double max_seconds = 290;             // layers are repeated less often where it would take longer; a few times always
  std::uint64_t seed = 0;               // of weights and activations
  std::string python;                   // an interpreter whose host times are measured too; empty: none
  std::string command;                  // command line, for the environment in the file
  std::string journal;                  // file (calibrate/fit/sample_journal.hpp), which stays there; empty: none
  bool resume = false;                  // goes on with what is in the journal
  /// The words of a step (sim/spec/run_spec.hpp), whose own shapes are measured too; its GPUs: `plan_gpus`, if 0 as
  /// many as are measured. Empty and 0: none.
  std::vector<SettingValue> plan;
  std::int64_t plan_gpus = 0;
  /// Of the same card: only what the plan needs and these have not is measured, or the host times of Python, or what
  /// transformers are made of. Null: everything. Not owned.
  const Samples* beside = nullptr;
  std::string beside_place;  // its file
  /// Called now and then with the fraction done, 0 to 1, and what is being measured. Empty: nobody listens.
  std::function<void(double fraction, const std::string& what)> progress;
  /// Called with what the user should know before it begins. Empty: nobody listens.
  std::function<void(const std::string&)> note;
};

/// Measures. No samples where `beside` has all that the plan needs, which note() says. Throws InputError for options
/// that do not fit this host (more GPUs than there are, no CUDA) or each other, for words of a plan as parse_run_spec()
/// does, for samples beside that are of another card or other versions, for a journal that cannot be written or is of
/// another host; CannotRun if measuring fails (out of memory). Where a wait has no end the process ends
/// (runtime/comm/waiting.hpp), after limit_waiting().
Samples probe_host(const ProbeOptions& options);

}  // namespace pdl
