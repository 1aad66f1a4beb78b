#include "runtime/program/pipeline_program.hpp"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "runtime/comm/process_group.hpp"
#include "runtime/comm/rendezvous.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/executor/dependencies.hpp"
#include "runtime/executor/task_board.hpp"
#include "runtime/executor/worker_device.hpp"
#include "runtime/executor/worker_threads.hpp"
#include "runtime/model/pipeline_stage.hpp"
#include "runtime/trace/host_sleep.hpp"
#include "sim/io/error.hpp"

#if PDL_CUDA
#include <ATen/cuda/PeerToPeerAccess.h>
#endif

namespace pdl {
namespace {

/// A task with everything looked up: what the walk over a step needs.
struct PreparedTask {
  TaskId id = 0;
  TaskKind kind = TaskKind::forward;
  bool accumulate = false;
  bool published = false;  // another host waits for it
  int microbatch = 0;
  PipelineStage* stage = nullptr;
  Transfer transfer;
  Exchange exchange;
  std::int64_t sleep_ns = 0;
};

constexpr std::uint32_t kAllIssued = std::numeric_limits<std::uint32_t>::max();

class PipelineProgram : public StepProgram {
 public:
  PipelineProgram(const Plan& plan, const RuntimeOptions& options, Rendezvous* rendezvous, const std::string& purpose)
      : plan_(plan),
        options_(options),
        dependencies_(make_dependencies(plan, buffer_hazards(plan))),
        board_(plan.graph.tasks.size()),
        events_(plan.graph.tasks.size(), nullptr),
        stages_(plan.stages.size()),
        devices_(plan.graph.workers),
        tasks_(plan.graph.workers),
        at_(plan.graph.workers),
        local_(local_workers()),
        threads_(number_of_threads()) {
    set_up_libtorch(plan.spec.dtype, options.device);
    const Meeting meeting = make_meeting(rendezvous, purpose);
    allow_peer_access();
    on_all([&](int worker) { create_worker(worker); });
    if (!meeting.channels.empty() || !meeting.groups.empty()) {
      on_all([&](int worker) {
        Meeting own = meeting;
        own.worker = worker;
        devices_[worker]->inside([&] { devices_[worker]->connect(own); });
      });
    }
    find_published();
    for (const int worker : local_) prepare_tasks(worker);
  }

  ~PipelineProgram() override {
    // After a failure every worker has done this for itself.
    if (board_.aborted()) return;
    const Waiting waiting("the workers leave each other");
    try {
      on_all([&](int worker) { devices_[worker]->inside([&] { devices_[worker]->disconnect(false); }); });
    } catch (...) {
      // The run is over and its results have been handed out; there is nobody to tell.
    }
  }

  void run_step(SpanRecorder* recorder) override {
    ++step_;
    on_all([&](int worker) { devices_[worker]->inside([&] { walk(worker, recorder); }); });
  }

  std::string where() const override {
    std::string text;
    for (const int worker : local_) {
      const std::uint32_t at = at_[static_cast<std::size_t>(worker)].load(std::memory_order_relaxed);
      text += (text.empty() ? "worker " : ", worker ") + std::to_string(worker);
      if (at == kAllIssued) {
        text += " has issued all and waits for its device";
      } else {
        const Task& task = plan_.graph.tasks[at];
        text += " is at " + task_name(task.kind, task.stage, task.microbatch, /*with_stage=*/true, task.part);
      }
    }
    return text;
  }

  double loss() override {
    double sum = 0;
    bool known = false;
    for (const auto& stage : stages_) {
      if (!stage || !stage->has_loss()) continue;
      sum += stage->loss();
      known = true;
    }
    return known ? sum : std::numeric_limits<double>::quiet_NaN();
  }

  std::vector<torch::Tensor> parameters() override {
    std::vector<torch::Tensor> copies;
    for (const auto& stage : stages_) {
      if (!stage) continue;
      for (const at::Tensor& parameter : stage->parameters()) {
        copies.push_back(parameter.to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true));
      }
    }
    return copies;
  }

 private:
  /// Before any of them is there.
  int number_of_threads() const {
    if (local_.size() > 1) allow_ranks_in_threads();
    return static_cast<int>(local_.size());
  }

  std::vector<int> local_workers() const {
    std::vector<int> workers;
    for (int w = 0; w < static_cast<int>(plan_.graph.workers); ++w) {
      if (options_.is_local(w)) workers.push_back(w);
    }
    return workers;
  }

  /// Runs `body` for every worker of this process on its own thread. The first failure ends all of them.
  void on_all(const std::function<void(int)>& body) {
    threads_.run([&](int index) {
      const int worker = local_[static_cast<std::size_t>(index)];
      try {
        board_.throw_if_aborted();
        body(worker);
      } catch (const c10::OutOfMemoryError& error) {
        fail(worker);
        throw CannotRun("worker " + std::to_string(worker) + ": out of memory: " + error.what_without_backtrace());
      } catch (...) {
        fail(worker);
        throw;
      }
    });
  }

  void fail(int worker) {
    board_.abort();
    // In a group of processes this one ends now, and the others with it: there is nobody to part from.
    if (options_.rank < 0 && devices_[worker]) devices_[worker]->disconnect(/*failed=*/true);
  }

  Meeting make_meeting(Rendezvous* rendezvous, const std::string& purpose) const {
    Meeting meeting;
    meeting.workers = static_cast<int>(plan_.graph.workers);
    meeting.groups = replica_groups(plan_.graph);
    std::set<MessageChannel> channels;
    for (const Task& task : plan_.graph.tasks) {
      if (is_pipeline_transfer(task.kind)) channels.insert(channel_of(plan_.graph, task));
    }
    if (plan_.spec.transport != Transport::copy) meeting.channels.assign(channels.begin(), channels.end());
    if (rendezvous) {
      meeting.store = c10::make_intrusive<c10d::PrefixStore>("pairs/" + purpose, rendezvous->store());
    } else {
      meeting.store = c10::make_intrusive<c10d::HashStore>();
    }
    return meeting;
  }

  /// Copies go straight from one GPU's memory to the other's where the hardware allows it, else over the host.
  void allow_peer_access() const {
#if PDL_CUDA
    if (options_.device != DeviceKind::cuda || plan_.spec.transport != Transport::copy) return;
    for (const Work& work : plan_.graph.works) {
      if (!is_pipeline_transfer(work.kind)) continue;
      const auto from = static_cast<c10::DeviceIndex>(options_.device_index(work.from_worker));
      const auto to = static_cast<c10::DeviceIndex>(options_.device_index(work.to_worker));
      at::cuda::get_p2p_access(from, to);
    }
#endif
  }

  void create_worker(int worker) {
    const bool cuda = options_.device == DeviceKind::cuda;
    const int index = options_.device_index(worker);
    devices_[worker] = cuda ? make_cuda_worker(index, events_) : make_cpu_worker(plan_.graph.tasks.size());
    devices_[worker]->inside([&] {
      const at::Device device =
          cuda ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index)) : at::Device(at::kCPU);
      const PipelineStage* before = nullptr;
      for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
        if (only_worker(plan_.stages[s]) != worker) continue;
        stages_[s] = std::make_unique<PipelineStage>(plan_, static_cast<int>(s), device, options_, before);
        before = stages_[s].get();
      }
      for (TaskId t = 0; t < plan_.graph.tasks.size(); ++t) {
        const Task& task = plan_.graph.tasks[t];
        if (task.worker != worker || task.kind == TaskKind::sleep) continue;
        devices_[worker]->prepare(t, task.stream % kStreamsPerWorker, dependencies_.is_awaited[t]);
      }
      devices_[worker]->synchronise(board_);
    });
  }

  void find_published() {
    published_.assign(plan_.graph.tasks.size(), false);
    for (TaskId t = 0; t < plan_.graph.tasks.size(); ++t) {
      for (const TaskId before : dependencies_.before(t)) {
        if (host(before) == host(t)) continue;
        published_[before] = true;
        TORCH_CHECK(options_.rank < 0, "a task of worker ", plan_.graph.tasks[t].worker,
                    " waits for one of another process, which no message ends");
      }
    }
  }

  void prepare_tasks(int worker) {
    for (TaskId t = 0; t < plan_.graph.tasks.size(); ++t) {
      if (plan_.graph.tasks[t].worker == worker) tasks_[worker].push_back(prepare_task(t));
    }
  }

  std::uint32_t host(TaskId task) const { return plan_.graph.tasks[task].host; }

  PreparedTask prepare_task(TaskId t) const {
    const Task& task = plan_.graph.tasks[t];
    const Work& work = plan_.graph.works[task.work];
    PreparedTask prepared;
    prepared.id = t;
    prepared.kind = task.kind;
    prepared.accumulate = work.accumulate;
    prepared.published = published_[t];
    prepared.microbatch = task.microbatch;
    prepared.stage = stages_[task.stage].get();
    prepared.sleep_ns = work.sleep_ns;
    if (is_pipeline_transfer(task.kind)) prepared.transfer = make_transfer(task, work);
    if (task.kind == TaskKind::all_reduce)
      prepared.exchange = {static_cast<int>(task.part), prepared.stage->gradients()};
    return prepared;
  }

  Transfer make_transfer(const Task& task, const Work& work) const {
    const bool sends = is_send(task.kind);
    const bool forward = carries_activations(task.kind);
    const int other = other_stage(task.kind, task.stage);
    const int sender = sends ? task.stage : other;
    const int receiver = sends ? other : task.stage;
    const int m = task.microbatch;
    Transfer transfer;
    transfer.peer = sends ? work.to_worker : work.from_worker;
    transfer.channel = channel_of(plan_.graph, task);
    const int boundary = std::min(sender, receiver);
    transfer.tag = (2 * boundary + (forward ? 0 : 1)) * static_cast<int>(plan_.microbatch_rows.size()) + m;
    if (const auto& stage = stages_[sender]) transfer.source = forward ? stage->output(m) : stage->input_gradient(m);
    if (const auto& stage = stages_[receiver]) transfer.target = forward ? stage->input(m) : stage->output_gradient(m);
    const at::Tensor& here = sends ? transfer.source : transfer.target;
    TORCH_CHECK(here.defined() && static_cast<std::int64_t>(here.nbytes()) == work.bytes, "the plan moves ", work.bytes,
                " bytes, the stage has another buffer for them");
    return transfer;
  }

  void walk(int worker, SpanRecorder* recorder) {
    WorkerDevice& device = *devices_[worker];
    device.begin_step(recorder);
    std::atomic<std::uint32_t>& at = at_[static_cast<std::size_t>(worker)];
    for (const PreparedTask& task : tasks_[worker]) {
      at.store(task.id, std::memory_order_relaxed);
      if (task.kind == TaskKind::sleep) {
        sleep_host(task.sleep_ns, task.id, recorder);
        continue;
      }
      for (const TaskId before : dependencies_.before(task.id)) {
        if (host(before) != host(task.id)) board_.wait(before, step_);
        device.wait(task.id, before);
      }
      device.begin(task.id);
      execute(device, task);
      device.end(task.id);
      if (task.published) board_.publish(task.id, step_);
    }
    at.store(kAllIssued, std::memory_order_relaxed);
    device.synchronise(board_);
  }

  void execute(WorkerDevice& device, const PreparedTask& task) const {
    switch (task.kind) {
      case TaskKind::forward: return task.stage->forward(task.microbatch);
      case TaskKind::recompute: return task.stage->recompute(task.microbatch);
      case TaskKind::backward: return task.stage->backward(task.microbatch, task.accumulate);
      case TaskKind::backward_input: return task.stage->backward_input(task.microbatch);
      case TaskKind::backward_weight: return task.stage->backward_weight(task.microbatch, task.accumulate);
      case TaskKind::optimizer: return task.stage->optimizer_step();
      case TaskKind::send_forward:
      case TaskKind::send_backward:
        if (plan_.spec.transport == Transport::copy) return device.copy(task.id, task.transfer);
        return device.send(task.id, task.transfer);
      case TaskKind::receive_forward:
      case TaskKind::receive_backward: return device.receive(task.id, task.transfer);
      case TaskKind::all_reduce: return device.all_reduce(task.id, task.exchange);
      default: TORCH_CHECK(false, "a pipeline has no such task: ", static_cast<int>(task.kind));
    }
  }

  Plan plan_;
  RuntimeOptions options_;
  Dependencies dependencies_;
  TaskBoard board_;
  EventTable events_;
  std::vector<std::unique_ptr<PipelineStage>> stages_;  // by stage; null: of another process
  std::vector<std::unique_ptr<WorkerDevice>> devices_;  // by worker
  std::vector<std::vector<PreparedTask>> tasks_;        // by worker
  std::vector<std::atomic<std::uint32_t>> at_;          // by worker: the task that its host is at, for where()
  std::vector<bool> published_;                         // by task: another host waits for it
  std::vector<int> local_;
  WorkerThreads threads_;
  int step_ = 0;
};

/// All but deadlocks, which the waits of a program tell.
void check_words_and_messages(const Plan& plan, const RuntimeOptions& options) {
  const RunSpec& spec = plan.spec;
  if (spec.synthetic) throw InputError("--tf", "synthetic costs", "none: a measured run takes the time it takes");
  if (spec.schedule_file && !spec.schedule_file->whole_step) {
    throw InputError("--schedule", spec.schedule + ", which is a part of a step",
                     "a whole step, with a forward and a backward of every stage and micro-batch");
  }
  if (plan.parallel.program != Program::pipeline) {
    throw InputError("--workers", to_string(spec.workers), "thread or process for a pipeline program");
  }
  check_devices(spec, options);
  const bool cuda = options.device == DeviceKind::cuda;
  const std::string on = std::string(" on ") + (cuda ? "GPUs" : "CPU");
  if (spec.gpus == 1) return;
  if (spec.transport == Transport::nccl && !cuda) {
    throw InputError("--transport", to_string(spec.transport) + on, "copy or gloo");
  }
  if (spec.transport == Transport::gloo && cuda) {
    throw InputError("--transport", to_string(spec.transport) + on, "copy or nccl");
  }
  check_message_order(plan);
}

}  // namespace

void check_pipeline_plan(const Plan& plan, const RuntimeOptions& options) {
  check_words_and_messages(plan, options);
  static_cast<void>(make_dependencies(plan, buffer_hazards(plan)));  // a deadlock is refused
}

std::unique_ptr<StepProgram> make_pipeline_program(const Plan& plan, const RuntimeOptions& options,
                                                   Rendezvous* rendezvous, const std::string& purpose) {
  check_words_and_messages(plan, options);
  return std::make_unique<PipelineProgram>(plan, options, rendezvous, purpose);
}

}  // namespace pdl
