#include "runtime/device/stream_time.hpp"

#include <algorithm>

#include "sim/io/error.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#endif

namespace pdl {

#if PDL_CUDA

double stream_time_ms(const std::function<void()>& call) {
  const c10::cuda::CUDAStream stream = at::cuda::getCurrentCUDAStream();
  at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  double least_ms = 1e30;
  call();
  for (int i = 0; i < 3; ++i) {
    begin.record(stream);
    call();
    call();
    end.record(stream);
    end.synchronize();
    least_ms = std::min(least_ms, static_cast<double>(begin.elapsed_time(end)) / 2);
  }
  return least_ms;
}

#else

double stream_time_ms(const std::function<void()>&) {
  throw CannotRun("this program was built without CUDA");
}

#endif

}  // namespace pdl
