// A worker on a GPU: tasks are launched on the stream that the graph gives them; events hold them back; peer copies by
// the sender's copy engine; NCCL.
#include "runtime/executor/worker_device.hpp"
#include "sim/io/error.hpp"

#if PDL_CUDA

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#include <array>
#include <optional>
#include <string>

#include "runtime/comm/nccl_groups.hpp"
#include "runtime/comm/nccl_pairs.hpp"
#include "runtime/trace/span_recorder.hpp"

namespace pdl {
namespace {

using c10::cuda::CUDAStream;

class CudaWorker : public WorkerDevice {
 public:
  CudaWorker(int device_index, EventTable& events)
      : index_(static_cast<c10::DeviceIndex>(device_index)), events_(events), places_(events.size(), 0) {
    const c10::cuda::CUDAGuard guard(index_);
    create_stream(kCompute);
  }

  // A destructor must not throw: an error here means that the device has failed, which has been reported before.
  ~CudaWorker() override {
    for (const TaskId task : own_events_) static_cast<void>(cudaEventDestroy(events_[task]));
  }

  void inside(const std::function<void()>& body) override {
    const c10::cuda::CUDAGuard device(index_);
    const c10::cuda::CUDAStreamGuard stream(*streams_[kCompute]);
    body();
  }

  void connect(const Meeting& meeting) override {
    if (!meeting.channels.empty())
      nccl_ = std::make_unique<NcclPairs>(meeting.worker, meeting.channels, *meeting.store);
    if (!meeting.groups.empty()) groups_ = std::make_unique<NcclGroups>(meeting.worker, meeting.groups, *meeting.store);
  }

  void prepare(TaskId task, std::uint32_t stream, bool awaited) override {
    places_[task] = stream;
    create_stream(stream);
    if (!awaited) return;
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&events_[task], cudaEventDisableTiming));
    own_events_.push_back(task);
  }

  void begin_step(SpanRecorder* recorder) override { recorder_ = recorder; }

  void wait(TaskId task, TaskId before) override {
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream(task), events_[before], 0));
  }

  void begin(TaskId task) override {
    if (recorder_) recorder_->begin(task, stream(task));
  }

  void copy(TaskId task, const Transfer& transfer) override {
    C10_CUDA_CHECK(cudaMemcpyPeerAsync(transfer.target.data_ptr(), transfer.target.device().index(),
                                       transfer.source.const_data_ptr(), transfer.source.device().index(),
                                       transfer.target.nbytes(), stream(task)));
  }

  void send(TaskId task, const Transfer& transfer) override {
    nccl_->send(transfer.source.const_data_ptr(), static_cast<std::int64_t>(transfer.source.nbytes()), transfer.channel,
                stream(task));
  }

  void receive(TaskId task, const Transfer& transfer) override {
    nccl_->receive(transfer.target.data_ptr(), static_cast<std::int64_t>(transfer.target.nbytes()), transfer.channel,
                   stream(task));
  }

  void all_reduce(TaskId task, const Exchange& exchange) override {
    groups_->average(exchange.group, exchange.gradients, stream(task));
  }

  void end(TaskId task) override {
    if (recorder_) recorder_->end(task, stream(task));
    if (events_[task]) C10_CUDA_CHECK(cudaEventRecord(events_[task], stream(task)));
  }

  /// Looks again and again instead of blocking, so that a failed worker is noticed; the first look after the end comes
  /// within a microsecond.
  void synchronise(const TaskBoard& board) override {
    for (const std::optional<CUDAStream>& stream : streams_) {
      while (stream && !stream->query()) {
        board.throw_if_aborted();
        for (int i = 0; i < 64; ++i) __builtin_ia32_pause();
      }
    }
    board.throw_if_aborted();
  }

  void disconnect(bool failed) override {
    if (failed && groups_) groups_->abort();
    if (failed && nccl_) nccl_->abort();
    groups_.reset();
    nccl_.reset();
  }

 private:
  static constexpr std::uint32_t kCompute = 0;

  cudaStream_t stream(TaskId task) const { return handles_[places_[task]]; }

  void create_stream(std::uint32_t place) {
    if (streams_[place]) return;
    streams_[place] = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index_);
    handles_[place] = streams_[place]->stream();
  }

  c10::DeviceIndex index_;
  EventTable& events_;  // of all workers of the process
  std::vector<TaskId> own_events_;
  std::vector<std::uint32_t> places_;  // by task: of its stream
  std::array<std::optional<CUDAStream>, kStreamsPerWorker> streams_;
  std::array<cudaStream_t, kStreamsPerWorker> handles_{};
  std::unique_ptr<NcclPairs> nccl_;
  std::unique_ptr<NcclGroups> groups_;
  SpanRecorder* recorder_ = nullptr;
};

}  // namespace

std::unique_ptr<WorkerDevice> make_cuda_worker(int device_index, EventTable& events) {
  return std::make_unique<CudaWorker>(device_index, events);
}

}  // namespace pdl

#else

namespace pdl {

std::unique_ptr<WorkerDevice> make_cuda_worker(int, EventTable&) {
  throw CannotRun("this program was built without CUDA");
}

}  // namespace pdl

#endif
