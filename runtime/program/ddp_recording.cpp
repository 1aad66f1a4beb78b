#include "runtime/program/ddp_recording.hpp"

#include <ATen/record_function.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/trace/span_recorder.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace pdl {
namespace {

/// The copies from the buckets back into the gradients, which the Reducer makes one tensor after another, bucket after
/// bucket, waiting for each bucket's all-reduce before its first.
class CopiesBack {
 public:
  explicit CopiesBack(std::vector<std::size_t> bucket_sizes) : sizes_(std::move(bucket_sizes)) {}

  /// On the thread that will make them.
  void expect(const std::vector<TaskId>& tasks, SpanRecorder& recorder) {
    tasks_ = &tasks;
    recorder_ = &recorder;
    bucket_ = copied_ = 0;
    current = this;
  }

  /// Throws std::logic_error if copies that the plan has were not seen: their times would be made up.
  void end() {
    const std::vector<TaskId>* tasks = std::exchange(tasks_, nullptr);
    if (current == this) current = nullptr;
    if (!tasks) return;
    std::size_t planned = 0, seen = 0;
    for (std::size_t b = 0; b < sizes_.size(); ++b) {
      if ((*tasks)[b] == kNone) continue;
      planned += sizes_[b];
      seen += b < bucket_ ? sizes_[b] : b == bucket_ ? copied_ : 0;
    }
    if (seen == planned) return;
    throw std::logic_error("of " + std::to_string(planned) + " copies from the buckets back into the gradients " +
                           std::to_string(seen) +
                           " were seen: LibTorch makes them in another way than this program takes down");
  }

  /// Callbacks for every operator of LibTorch in this process.
  static std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function) {
    if (current && is_copy(function)) current->copy_begins();
    return nullptr;
  }
  static void operator_ends(const at::RecordFunction& function, at::ObserverContext*) {
    if (current && is_copy(function)) current->copy_ends();
  }

 private:
  static bool is_copy(const at::RecordFunction& function) { return std::strcmp(function.name(), "aten::copy_") == 0; }

  TaskId task() const { return tasks_ && bucket_ < sizes_.size() ? (*tasks_)[bucket_] : kNone; }

  void copy_begins() {
    if (copied_ == 0 && task() != kNone) recorder_->begin(task());
  }

  void copy_ends() {
    if (!tasks_ || bucket_ == sizes_.size()) return;
    if (++copied_ < sizes_[bucket_]) return;
    if (task() != kNone) recorder_->end(task());
    ++bucket_;
    copied_ = 0;
  }

  static thread_local CopiesBack* current;

  std::vector<std::size_t> sizes_;
  const std::vector<TaskId>* tasks_ = nullptr;
  SpanRecorder* recorder_ = nullptr;
  std::size_t bucket_ = 0;
  std::size_t copied_ = 0;  // of the bucket
};

thread_local CopiesBack* CopiesBack::current = nullptr;

/// LibTorch calls CopiesBack for every operator while at least one recording wants it: once, however many there are.
class OperatorCallbacks {
 public:
  static void acquire() {
    const std::lock_guard lock(mutex);
    if (users++ > 0) return;
    handle = at::addGlobalCallback(at::RecordFunctionCallback(&CopiesBack::operator_begins, &CopiesBack::operator_ends)
                                       .scopes({at::RecordScope::FUNCTION}));
  }
  static void release() {
    const std::lock_guard lock(mutex);
    if (--users == 0) at::removeCallback(handle);
  }

 private:
  static inline std::mutex mutex;
  static inline int users = 0;
  static inline at::CallbackHandle handle = 0;
};

/// All-reduces of Gloo, which end on a thread of Gloo, one after another: each begins when it has been called and the
/// one before it has ended.
class GlooSpans {
 public:
  void call(TaskId task, SpanRecorder& recorder) {
    const std::lock_guard lock(mutex_);
    recorder_ = &recorder;
    if (under_way_.empty()) recorder.begin(task);
    under_way_.push_back(task);
  }

// GCC 12 takes a guard inside LibTorch's inlined addCallback for uninitialised.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
  /// Who waits for the result waits until its end has been noted.
  c10::intrusive_ptr<c10d::Work> end_before_the_wait_does(c10d::Work& work) {
    const auto future = work.getFuture();
    return c10d::Work::create_from_future(future->then(
        [this](c10::ivalue::Future& done) {
          ended();
          return done.value();  // or throws, as it would have
        },
        future->elementType()));
  }
#pragma GCC diagnostic pop

  void wait_for_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return under_way_.empty(); });
  }

 private:
  void ended() {
    {
      const std::lock_guard lock(mutex_);
      recorder_->end(under_way_.front());
      under_way_.pop_front();
      if (!under_way_.empty()) recorder_->begin(under_way_.front());
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  SpanRecorder* recorder_ = nullptr;
  std::deque<TaskId> under_way_;
};

}  // namespace

struct DdpRecording::State {
  State(c10::Device on, std::vector<std::size_t> sizes) : device(on), copies_back(std::move(sizes)) {
#if PDL_CUDA
    if (device.is_cuda()) beside = c10::cuda::getStreamFromPool(false, device.index());
#endif
  }

  void begin(TaskId task) const {
    if (task != kNone) recorder->begin(task);
  }
  void end(TaskId task) const {
    if (task != kNone) recorder->end(task);
  }

  c10::Device device;
  CopiesBack copies_back;
  GlooSpans gloo;
  const ExchangeTasks* tasks = nullptr;
  SpanRecorder* recorder = nullptr;  // null: this backward is not recorded
  std::size_t bucket = 0;            // the next one to be reduced
#if PDL_CUDA
  std::optional<c10::cuda::CUDAStream> beside;
#endif
};

DdpRecording::DdpRecording(c10::Device device, std::vector<std::size_t> bucket_sizes)
    : state_(std::make_unique<State>(device, std::move(bucket_sizes))) {}

DdpRecording::~DdpRecording() = default;

void DdpRecording::begin(const ExchangeTasks& tasks, SpanRecorder& recorder) {
  state_->tasks = &tasks;
  state_->recorder = &recorder;
  state_->bucket = 0;
  OperatorCallbacks::acquire();
  state_->begin(tasks.backward.front());
}

void DdpRecording::bucket_filled(std::size_t bucket) {
  if (!state_->recorder) return;
  state_->end(state_->tasks->backward[bucket]);
  state_->begin(state_->tasks->copy_in[bucket]);
}

void DdpRecording::before_all_reduce() {
  if (!state_->recorder) return;
  state_->end(state_->tasks->copy_in[state_->bucket]);
  const TaskId task = state_->tasks->all_reduce[state_->bucket];
  if (task == kNone) return;
#if PDL_CUDA
  if (state_->beside) {
    at::cuda::CUDAEvent called;
    called.record(c10::cuda::getCurrentCUDAStream(state_->device.index()));
    called.block(*state_->beside);
    return state_->recorder->begin(task, state_->beside->stream());
  }
#endif
  state_->gloo.call(task, *state_->recorder);
}

c10::intrusive_ptr<c10d::Work> DdpRecording::after_all_reduce(c10::intrusive_ptr<c10d::Work> work) {
  if (!state_->recorder) return work;
  const TaskId task = state_->tasks->all_reduce[state_->bucket];
#if PDL_CUDA
  if (task != kNone && state_->beside) {
    const c10::cuda::CUDAStreamGuard guard(*state_->beside);
    work->wait();  // this stream does, not the host
    state_->recorder->end(task, state_->beside->stream());
  }
#endif
  if (task != kNone && state_->device.is_cpu()) {
    work = state_->gloo.end_before_the_wait_does(*work);
  }
  if (++state_->bucket < state_->tasks->backward.size()) {
    state_->begin(state_->tasks->backward[state_->bucket]);
  } else {
    state_->copies_back.expect(state_->tasks->copy_out, *state_->recorder);
  }
  return work;
}

void DdpRecording::end() {
  if (!state_->recorder) return;
  OperatorCallbacks::release();
  state_->gloo.wait_for_all();
  state_->recorder = nullptr;
  state_->copies_back.end();
}

}  // namespace pdl
