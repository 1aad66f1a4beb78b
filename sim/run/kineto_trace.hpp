// A trace of torch.profiler as export_chrome_trace() writes it (Kineto), read for what ran on the GPU of one process,
// who launched it, and what the program called meanwhile.
//
//   const KinetoTrace trace = read_kineto_trace("rank0.json");
//   trace.rank, trace.world_size                  0, 4, of a process group; -1, 0 without one
//   trace.activities[0]                           {"sm80_xmma_gemm_...", kernel, stream 7, 0 ns to 85'888 ns, ...}
//   trace.activities[0].launched_by               the call of the host that launched it, by their `correlation`
//
// Everything that ran on the GPU is kept, in the order of its start. Times count from the first of them, or from its
// launch, in whole nanoseconds. Not here: what belongs to which step, and what it is for (sim/run/trace_step.hpp).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace pdl {

enum class GpuActivityKind : std::uint8_t { kernel, copy, fill };

/// A call of the host: an operator of PyTorch, an annotation of the program, an optimizer's step.
struct HostCall {
  std::string name;
  std::int64_t thread = 0;
  std::int64_t start_ns = 0, end_ns = 0;
  bool annotation = false;  // of the program (record_function), not an operator
};

struct GpuActivity {
  std::string name;
  GpuActivityKind kind = GpuActivityKind::kernel;
  std::int64_t stream = 0;
  std::int64_t start_ns = 0, end_ns = 0;
  /// The call that launched it: its thread, and when it began and ended. -1: not in the trace.
  std::int64_t launch_thread = -1, launch_start_ns = -1, launch_end_ns = -1;
  std::string grid;         // thread blocks of a kernel, "[8,4,4]"; empty: not said
  std::int64_t bytes = -1;  // what a collective of NCCL is given, by its rank; -1: not said
  std::string ranks;        // of a kernel of NCCL: of its process group, "[0, 1]"; empty: not said

  std::int64_t duration_ns() const { return end_ns - start_ns; }
  bool is_launch_known() const { return launch_start_ns >= 0; }
};

/// A call in which a thread of the host waits for its GPU: cudaStreamSynchronize and its like.
struct HostWait {
  std::int64_t start_ns = 0, end_ns = 0;
};

struct KinetoTrace {
  std::string path;
  std::int64_t origin_ns = 0;  // what its times count from, on the clock of its host
  int rank = -1;
  int world_size = 0;
  std::string gpu;                      // "NVIDIA H200"; empty: not said
  std::string nccl;                     // version; empty: none
  std::vector<GpuActivity> activities;  // by start, then stream
  std::vector<HostCall> calls;          // by start
  std::vector<HostWait> waits;          // by end
};

/// Throws InputError with file and place: no JSON, cut off, compressed, no trace of Kineto, a value of an event that is
/// not what it should be, nothing that ran on a GPU, activities of several GPUs in one file.
KinetoTrace read_kineto_trace(const std::string& path);

/// The same of a document that was read already; `path`: what messages call it.
KinetoTrace kineto_trace_from_json(const nlohmann::json& document, const std::string& path);

/// Of a JSON document: a trace has "traceEvents", a run of pdl has not.
bool is_kineto_trace(const nlohmann::json& document);

/// The JSON of a file that may be a trace. Throws InputError: no JSON, cut off, compressed.
nlohmann::json parse_possible_trace(const std::string& path);

/// A kernel of NCCL: "SendRecv", "AllReduce", of "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)". Empty: none of NCCL's.
std::string nccl_operation(const GpuActivity& activity);

/// What people call a kernel: without template arguments, parameters and namespaces of PyTorch.
std::string short_name(const GpuActivity& activity);

}  // namespace pdl
