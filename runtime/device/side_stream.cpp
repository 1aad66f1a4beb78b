#include "runtime/device/side_stream.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace pdl {

#if PDL_CUDA

struct SideStream::Cuda {
  c10::cuda::CUDAStream stream;
  at::cuda::CUDAEvent ready{cudaEventDisableTiming};
  at::cuda::CUDAEvent done{cudaEventDisableTiming};
};

SideStream::SideStream(c10::Device device) {
  if (device.is_cuda())
    cuda_ = std::make_unique<Cuda>(Cuda{c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())});
}

void SideStream::run(const std::function<void()>& work) {
  if (!cuda_) return work();
  cuda_->ready.record(at::cuda::getCurrentCUDAStream(cuda_->stream.device_index()));
  cuda_->ready.block(cuda_->stream);
  const c10::cuda::CUDAStreamGuard guard(cuda_->stream);
  work();
}

void SideStream::join() {
  if (!cuda_) return;
  cuda_->done.record(cuda_->stream);
  cuda_->done.block(at::cuda::getCurrentCUDAStream(cuda_->stream.device_index()));
}

#else

struct SideStream::Cuda {};
SideStream::SideStream(c10::Device) {}
void SideStream::run(const std::function<void()>& work) {
  work();
}
void SideStream::join() {}

#endif

SideStream::~SideStream() = default;

}  // namespace pdl
