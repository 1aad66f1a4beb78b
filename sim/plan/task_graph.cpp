#include "sim/plan/task_graph.hpp"

#include <algorithm>
#include <boost/functional/hash.hpp>
#include <cmath>

#include "sim/io/large_array.hpp"
#include "sim/spec/schedule.hpp"

namespace pdl {

std::int32_t other_stage(TaskKind transfer, std::int32_t stage) {
  return stage + (carries_activations(transfer) == is_send(transfer) ? 1 : -1);
}

std::string to_string(StreamRole role) {
  switch (role) {
    case StreamRole::compute: return "compute";
    case StreamRole::send_forward: return "send forward";
    case StreamRole::send_backward: return "send backward";
    case StreamRole::receive_forward: return "receive forward";
    case StreamRole::receive_backward: return "receive backward";
    case StreamRole::collective: return "collective";
    case StreamRole::link: return "link";
    case StreamRole::none: return "none";
  }
  return "";
}

std::uint32_t stream_of(std::int32_t worker, StreamRole role, std::int32_t chunk) {
  const std::uint32_t first = static_cast<std::uint32_t>(worker) * kStreamsPerWorker;
  if (role == StreamRole::compute) return first;
  if (role == StreamRole::collective) return first + kCollectivePlace;
  return first + static_cast<std::uint32_t>(role) + kTransferRoles * (static_cast<std::uint32_t>(chunk) % kLanes);
}

std::uint32_t link_of(std::int32_t from_worker, std::int32_t to_worker, std::int32_t ring_first, std::int32_t workers) {
  const bool to_next = (from_worker - ring_first + 1) % workers == to_worker - ring_first;
  return static_cast<std::uint32_t>(from_worker) * kStreamsPerWorker + kCollectivePlace + (to_next ? 1 : 2);
}

std::uint32_t lane_of_stream(std::uint32_t stream) {
  return (stream % kStreamsPerWorker - 1) / kTransferRoles;
}

Implementation implementation_of(Program program) {
  return program == Program::pipeline ? Implementation::pipeline : Implementation::autograd;
}

Implementation implementation_of_layers(Program program, Dtype dtype) {
  return is_amp(dtype) ? Implementation::autograd : implementation_of(program);
}

Work sleep_work(double ms) {
  Work work;
  work.kind = TaskKind::sleep;
  work.sleep_ns = std::llround(ms * 1e6);
  return work;
}

const WorkerGroup& worker_group_of(const TaskGraph& graph, const Work& collective) {
  return graph.worker_groups.at(collective.worker_group);
}

std::size_t WorkHash::operator()(const Work& work) const {
  std::size_t hash = 0;
  for (const std::int64_t field :
       {static_cast<std::int64_t>(work.kind), static_cast<std::int64_t>(work.implementation),
        std::int64_t{work.accumulate} + 2 * std::int64_t{work.input_gradient} + 4 * std::int64_t{work.loss} +
            8 * std::int64_t{work.receives} + 16 * std::int64_t{work.same_call} +
            32 * std::int64_t{work.casts_are_there},
        std::int64_t{work.tensors}, std::int64_t{work.first_layer}, std::int64_t{work.layer_count},
        std::int64_t{work.from_worker}, std::int64_t{work.to_worker}, std::int64_t{work.worker_group}, work.rows,
        work.bytes, work.sleep_ns}) {
    boost::hash_combine(hash, field);
  }
  return hash;
}

std::uint32_t TaskGraphBuilder::add_work(const Work& work) {
  // Equal works are mostly added close to each other: the newest ones are looked at first.
  constexpr std::ptrdiff_t kNewest = 8;
  const auto newest_end = works_.rbegin() + std::min<std::ptrdiff_t>(kNewest, std::ssize(works_));
  const auto found = std::find(works_.rbegin(), newest_end, work);
  if (found != newest_end) return static_cast<std::uint32_t>(works_.rend() - found - 1);
  const auto [known, is_new] = known_works_.emplace(work, static_cast<std::uint32_t>(works_.size()));
  if (is_new) works_.push_back(work);
  return known->second;
}

std::uint32_t TaskGraphBuilder::add_worker_group(const WorkerGroup& group) {
  return worker_groups_.emplace(group, static_cast<std::uint32_t>(worker_groups_.size())).first->second;
}

TaskId TaskGraphBuilder::add_task(const Task& task) {
  tasks_.push_back(task);
  edges_.of_task_.push_back(kNone);
  return static_cast<TaskId>(tasks_.size() - 1);
}

void TaskGraphBuilder::reserve(std::size_t tasks) {
  reserve_large(tasks_, tasks);
  reserve_large(edges_.of_task_, tasks);
}

void TaskGraphBuilder::add_edge(TaskId before, TaskId after) {
  std::uint32_t& first = edges_.of_task_[before];
  if (first == kNone) {
    first = after;
  } else {
    further_edges_.emplace_back(before, after);
  }
}

TaskGraph TaskGraphBuilder::build(std::uint32_t workers, std::uint32_t hosts) && {
  std::stable_sort(further_edges_.begin(), further_edges_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t begin = 0, end = 0; begin < further_edges_.size(); begin = end) {
    const TaskId before = further_edges_[begin].first;
    while (end < further_edges_.size() && further_edges_[end].first == before) ++end;
    const auto place = static_cast<std::uint32_t>(edges_.lists_.size());
    edges_.lists_.push_back(static_cast<std::uint32_t>(end - begin + 1));
    edges_.lists_.push_back(std::exchange(edges_.of_task_[before], Edges::kFirstList + place));
    for (std::size_t e = begin; e < end; ++e) edges_.lists_.push_back(further_edges_[e].second);
  }
  std::vector<WorkerGroup> worker_groups(worker_groups_.size());
  for (const auto& [group, index] : worker_groups_) worker_groups[index] = group;
  return {std::move(works_), std::move(tasks_), std::move(edges_), std::move(worker_groups), workers, hosts, groups_};
}

std::string task_name(TaskKind kind, std::int32_t stage, std::int32_t microbatch, bool with_stage, std::uint32_t part) {
  const auto name = [&](const char* prefix, const char* letter) {
    return prefix + (with_stage ? std::to_string(stage) : "") + letter + std::to_string(microbatch);
  };
  switch (kind) {
    case TaskKind::forward: return name("", "F");
    case TaskKind::backward: return name("", "B");
    case TaskKind::backward_input: return name("", "I");
    case TaskKind::backward_weight: return name("", "W");
    case TaskKind::recompute: return name("", "R");
    case TaskKind::optimizer: return with_stage ? "optimizer " + std::to_string(stage) : "optimizer";
    case TaskKind::send_forward: return name("send ", "F");
    case TaskKind::send_backward: return name("send ", "B");
    case TaskKind::receive_forward: return name("receive ", "F");
    case TaskKind::receive_backward: return name("receive ", "B");
    case TaskKind::all_reduce: return "all-reduce " + std::to_string(part);
    case TaskKind::broadcast: return "broadcast " + std::to_string(part);
    case TaskKind::reduce: return "reduce " + std::to_string(part);
    case TaskKind::scatter: return "scatter " + std::to_string(part);
    case TaskKind::gather: return "gather " + std::to_string(part);
    case TaskKind::bucket_copy_in: return "bucket in " + std::to_string(part);
    case TaskKind::bucket_copy_out: return "bucket out " + std::to_string(part);
    case TaskKind::loss: return "loss";
    case TaskKind::scale_gradients: return with_stage ? "scale gradients " + std::to_string(stage) : "scale gradients";
    case TaskKind::sleep: return "sleep";
  }
  return "";
}

std::string task_action(const Task& task) {
  const auto name = [&](OperationKind kind) { return action_name(kind, task.stage, task.microbatch); };
  switch (task.kind) {
    case TaskKind::send_forward: return name(OperationKind::send_forward);
    case TaskKind::send_backward: return name(OperationKind::send_backward);
    case TaskKind::receive_forward: return name(OperationKind::receive_forward);
    case TaskKind::receive_backward: return name(OperationKind::receive_backward);
    default: return task_name(task.kind, task.stage, task.microbatch, true, task.part);
  }
}

}  // namespace pdl
