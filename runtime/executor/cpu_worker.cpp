// A worker on CPU: tasks run at once on the worker's thread. Only what Gloo carries is under way on its own.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/comm/gloo_groups.hpp"
#include "runtime/comm/gloo_pairs.hpp"
#include "runtime/executor/worker_device.hpp"
#include "runtime/trace/span_recorder.hpp"

namespace pdl {
namespace {

class CpuWorker : public WorkerDevice {
 public:
  explicit CpuWorker(std::size_t tasks) : messages_(tasks) {}

  void inside(const std::function<void()>& body) override { body(); }

  void connect(const Meeting& meeting) override {
    worker_ = meeting.worker;
    if (!meeting.channels.empty()) gloo_ = std::make_unique<GlooPairs>(meeting.store, meeting.worker, meeting.workers);
    if (!meeting.groups.empty()) groups_ = std::make_unique<GlooGroups>(meeting.store, meeting.worker, meeting.groups);
  }

  void prepare(TaskId, std::uint32_t, bool) override {}
  void begin_step(SpanRecorder* recorder) override { recorder_ = recorder; }

  void wait(TaskId, TaskId before) override { arrive(before); }

  void begin(TaskId task) override {
    if (recorder_) recorder_->begin(task);
  }

  void copy(TaskId, const Transfer& transfer) override {
    std::memcpy(transfer.target.data_ptr(), transfer.source.const_data_ptr(), transfer.target.nbytes());
  }

  void send(TaskId task, const Transfer& transfer) override {
    keep(task, {gloo_->send(transfer.source, transfer.peer, transfer.tag), transfer.peer});
  }

  void receive(TaskId task, const Transfer& transfer) override {
    keep(task, {gloo_->receive(transfer.target, transfer.peer, transfer.tag), transfer.peer});
  }

  void all_reduce(TaskId task, const Exchange& exchange) override {
    keep(task, {groups_->start(exchange.group, exchange.gradients), 0, &exchange});
  }

  /// What Gloo carries ends when it has been waited for.
  void end(TaskId task) override {
    if (recorder_ && !messages_[task].message) recorder_->end(task);
  }

  void synchronise(const TaskBoard& board) override {
    for (const TaskId task : under_way_) arrive(task);
    under_way_.clear();
    board.throw_if_aborted();
  }

  void disconnect(bool) override {
    for (Kept& kept : messages_) kept.message.reset();
    groups_.reset();
    gloo_.reset();
  }

 private:
  struct Kept {
    Message message;
    int peer = 0;
    const Exchange* exchange = nullptr;  // null: a message of one peer
  };

  void keep(TaskId task, Kept kept) {
    messages_[task] = std::move(kept);
    under_way_.push_back(task);
  }

  /// All-reduces are one stream: who waits for one may rely on those before it.
  void arrive(TaskId task) {
    if (!messages_[task].message) return;
    if (!messages_[task].exchange) return finish(task);
    for (const TaskId earlier : under_way_) {
      if (messages_[earlier].message && messages_[earlier].exchange) finish(earlier);
      if (earlier == task) return;
    }
  }

  void finish(TaskId task) {
    const auto& [message, peer, exchange] = messages_[task];
    exchange ? groups_->finish(exchange->group, message, exchange->gradients) : GlooPairs::wait(message, worker_, peer);
    messages_[task].message.reset();
    if (recorder_) recorder_->end(task);
  }

  int worker_ = 0;
  SpanRecorder* recorder_ = nullptr;
  std::unique_ptr<GlooPairs> gloo_;
  std::unique_ptr<GlooGroups> groups_;
  std::vector<Kept> messages_;  // by task
  std::vector<TaskId> under_way_;
};

}  // namespace

std::unique_ptr<WorkerDevice> make_cpu_worker(std::size_t tasks) {
  return std::make_unique<CpuWorker>(tasks);
}

}  // namespace pdl
