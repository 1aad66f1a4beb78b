// Small traces of torch.profiler, drawn event by event, microseconds.
//
//   DrawnTrace drawn;
//   drawn.call("user_annotation", "Optimizer.step#SGD.step", 1, 150, 160);        thread 1, from 150 to 160 us
//   drawn.gpu("kernel", "gemm", 7, 101, 111, 1, 100);     stream 7, 101 to 111 us, launched by thread 1 at 100 us
//   const KinetoTrace trace = read(drawn);
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/run/kineto_trace.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pdl {

inline const char* const kAllReduceKernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
inline const char* const kMessageKernel = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

struct DrawnTrace {
  nlohmann::json events = nlohmann::json::array();
  int rank = 1, world_size = 2;  // 0: no process group
  int correlations = 0;

  void call(const char* category, const std::string& name, int thread, double from, double to) {
    events.push_back(
        {{"ph", "X"}, {"cat", category}, {"name", name}, {"tid", thread}, {"ts", from}, {"dur", to - from}});
  }
  /// Launched by `thread` in a microsecond from `launched` on.
  void gpu(const char* category, const std::string& name, int stream, double from, double to, int thread,
           double launched, int device = 0) {
    ++correlations;
    events.push_back(
        {{"ph", "X"},
         {"cat", category},
         {"name", name},
         {"tid", stream},
         {"ts", from},
         {"dur", to - from},
         {"args", {{"stream", stream}, {"device", device}, {"correlation", correlations}, {"grid", {4, 2, 1}}}}});
    events.push_back({{"ph", "X"},
                      {"cat", "cuda_runtime"},
                      {"name", "cudaLaunchKernel"},
                      {"tid", thread},
                      {"ts", launched},
                      {"dur", 1.0},
                      {"args", {{"correlation", correlations}}}});
  }
  /// An all-reduce on stream 9 of so many floats.
  void all_reduce(double from, double to, int thread, double launched, std::int64_t floats) {
    gpu("kernel", kAllReduceKernel, 9, from, to, thread, launched);
    events[events.size() - 2]["args"]["In msg nelems"] = floats;
    events[events.size() - 2]["args"]["dtype"] = "Float";
  }
  void erase(std::size_t first, std::size_t count) {
    for (std::size_t n = 0; n < count; ++n) events.erase(first);
  }
  nlohmann::json json() const {
    nlohmann::json document = {{"traceEvents", events}, {"deviceProperties", {{{"id", 0}, {"name", "Drawn GPU"}}}}};
    if (world_size > 0)
      document["distributedInfo"] = {{"rank", rank}, {"world_size", world_size}, {"nccl_version", "2.28.9"}};
    return document;
  }
  std::string text() const { return json().dump(); }
};

/// One step, microseconds from 100 on:
///
///   host      |F 100|        |B (thread 2) 112|  |optimizer 150-160|
///   stream 7      [forward 101-111][backward 113-123]      [optimizer 155-158]
///   stream 9                            [all-reduce 118-130]
///   nothing runs: 111-113 (B is launched at 112: 113), 130-155 (launched at 151: until 152 the host's)
inline DrawnTrace one_step() {
  DrawnTrace drawn;
  drawn.call("user_annotation", "DistributedDataParallel.forward", 1, 100, 110);
  drawn.gpu("kernel", "gemm", 7, 101, 111, 1, 100);
  drawn.call("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 2, 112, 117);
  drawn.gpu("kernel", "gemm", 7, 113, 123, 2, 112);
  drawn.gpu("kernel", kAllReduceKernel, 9, 118, 130, 2, 116);
  drawn.call("user_annotation", "Optimizer.step#SGD.step", 1, 150, 160);
  drawn.gpu("kernel", "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<x>(y)", 7, 155, 158, 1, 151);
  return drawn;
}

/// A rank of two of DDP, a model of one layer of 10 floats, whose backward ends at `backward_ends` and whose all-reduce
/// ends at 60:
///
///   stream 7    [F 10-20][loss 20-21][B 21-backward_ends][copy in, 1]       [copy out 61-63][optimizer 63-67]
///   stream 9                                                      [all-reduce -60]
///   host        0        1           2                   3        4          5               6
inline DrawnTrace ddp_step(int rank, double backward_ends, std::int64_t floats = 20) {
  DrawnTrace drawn;
  drawn.rank = rank;
  drawn.gpu("kernel", "sgemm_forward", 7, 10, 20, 1, 0);
  drawn.call("cpu_op", "aten::mse_loss", 1, 1, 1.5);
  drawn.gpu("kernel", "mse", 7, 20, 21, 1, 1);
  drawn.call("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 2, 2, 2.5);
  drawn.gpu("kernel", "sgemm_backward", 7, 21, backward_ends, 2, 2);
  drawn.call("cpu_op", "torch::distributed::reducer::mul_out", 2, 3, 3.5);
  drawn.gpu("kernel", "copy_in", 7, backward_ends, backward_ends + 1, 2, 3);
  drawn.all_reduce(backward_ends + 1, 60, 2, 4, floats);
  drawn.call("cpu_op", "torch.distributed.ddp.reducer::copy_bucket_to_grad", 2, 5, 5.5);
  drawn.gpu("gpu_memcpy", "Memcpy DtoD", 7, 61, 62, 2, 5);
  drawn.gpu("gpu_memcpy", "Memcpy DtoD", 7, 62, 63, 2, 5.2);
  drawn.call("user_annotation", "Optimizer.step#SGD.step", 1, 6, 7);
  drawn.gpu("kernel", "sgd", 7, 63, 67, 1, 6);
  return drawn;
}

inline KinetoTrace read(const DrawnTrace& drawn, const std::string& name = "trace.json") {
  return kineto_trace_from_json(drawn.json(), name);
}

}  // namespace pdl
