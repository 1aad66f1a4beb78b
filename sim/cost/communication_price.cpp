#include "sim/cost/communication_price.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/cost/operation_at_size.hpp"
#include "sim/io/error.hpp"
#include "sim/plan/pytorch_pipeline_step.hpp"

namespace pdl {
namespace {

const char* collective_operation(TaskKind kind) {
  switch (kind) {
    case TaskKind::all_reduce: return "all_reduce";
    case TaskKind::broadcast: return "broadcast";
    case TaskKind::reduce: return "reduce";
    default: throw std::logic_error("no collective");
  }
}

}  // namespace

CommunicationPrices::CommunicationPrices(const Plan& plan, const CostProfile& profile, const HostCalls& calls,
                                         double host_quantile, Notices& notices)
    : plan_(plan),
      profile_(profile),
      calls_(calls),
      host_quantile_(host_quantile),
      notices_(notices),
      transfers_(profile, to_string(plan.spec.transport), notices),
      collectives_(profile, notices),
      has_receives_(has_work(plan, is_receive)),
      on_host_(profile.host_description.device == "cpu") {}

WorkPrice CommunicationPrices::of(const Work& work, double slows_collectives) {
  if (is_transfer(work.kind)) return transfer(work);
  return is_collective(work.kind) ? collective(work) : bucket_copy(work, slows_collectives);
}

WorkPrice CommunicationPrices::of_kernels(const KernelList& kernels) const {
  return {on_host_ ? kernels.cost_on_host() : kernels.cost(std::llround(calls_.launch_latency_ns)), kernels.kernels()};
}

WorkPrice CommunicationPrices::collective(const Work& work) {
  const WorkerGroup& group = worker_group_of(plan_.graph, work);
  Collective wanted;
  wanted.operation = collective_operation(work.kind);
  wanted.transport = collective_transport(plan_, profile_);
  wanted.ranks = std::ssize(group);
  wanted.bytes = work.bytes;
  wanted.hosts = plan_.parallel.mesh.hosts_of(group);
  wanted.network_bytes_per_s = plan_.spec.network_gb_per_s * 1e9;
  wanted.network_latency_ns = plan_.spec.network_latency_us * 1e3;
  wanted.network_given =
      plan_.spec.given.contains("network-gb-per-s") || plan_.spec.given.contains("network-latency-us");
  const CollectiveTime time = collectives_.at(wanted);
  KernelList kernels;
  // DataParallel moves a chunk of several tensors as one (flatten_dense_tensors).
  if (work.kind != TaskKind::all_reduce && work.tensors > 1) kernels.add(of_bucket("join", work.bytes));
  // DDP calls c10d for its one GPU; DataParallel calls NCCL for all of them.
  kernels.add_collective(time.device_ns, work.kind == TaskKind::all_reduce ? calls_.collective_issue_ns : time.issue_ns,
                         time.blocks);
  if (on_host_ && plan_.parallel.program == Program::data_parallel) return of_kernels(kernels);
  return {kernels.cost(std::llround(calls_.launch_latency_ns)), kernels.kernels()};
}

/// A plain copy is recorded without its kernel (CUPTI calls it a memory copy, not a kernel): it has the thread blocks
/// of the copy in, which moves as much.
OperationTime CommunicationPrices::of_bucket(const std::string& operation, std::int64_t bytes) {
  for (const MeasuredCurve& measured : profile_.of(Probe::bucket)) {
    if (measured.key.operation != operation) continue;
    const std::int64_t numbers = std::max<std::int64_t>(bytes / kBytesPerNumber, 1);
    OperationTime time = operation_at_size(measured, numbers, host_quantile_, notices_);
    if (time.kernels->empty() && operation == "copy_out") time.kernels = of_bucket("copy_in", bytes).kernels;
    return time;
  }
  throw InputError("profile " + profile_.name, "no measurement of bucket " + operation,
                   "one: pdl-calibrate measures it");
}

/// In: the host time is that of the Reducer's hook of each tensor. A sum reads two and writes one where a copy reads
/// one and writes one.
WorkPrice CommunicationPrices::bucket_copy(const Work& work, double slows_collectives) {
  const bool in = work.kind == TaskKind::bucket_copy_in;
  OperationTime time = of_bucket(in ? "copy_in" : "copy_out", work.bytes);
  if (work.accumulate) time.device_ns *= 1.5;
  time.issue_ns *= work.tensors;
  if (in) time.issue_ns = calls_.reducer_hook_ns * work.tensors;
  KernelList kernels;
  kernels.slows_collectives(slows_collectives);
  kernels.add(time);
  if (in && calls_.call_without_peers_ns > 0) kernels.add_collective(0, calls_.call_without_peers_ns, 0);
  return of_kernels(kernels);
}

WorkPrice CommunicationPrices::scaled_gradients(const Work& work, double issue_factor) {
  KernelList kernels;
  for (std::int32_t l = work.first_layer; l < work.first_layer + work.layer_count; ++l) {
    for (const ParameterTensor& tensor : parameter_tensors(plan_.spec.model.layers[static_cast<std::size_t>(l)])) {
      const std::int64_t bytes = tensor.numbers() * kBytesPerNumber;
      OperationTime time = copy(bytes);
      time.issue_ns *= issue_factor;
      kernels.add(time);
    }
  }
  return of_kernels(kernels);
}

bool CommunicationPrices::knows_copies() const {
  return !profile_.of(Probe::bucket).empty();
}

OperationTime CommunicationPrices::copy(std::int64_t bytes) {
  OperationTime time = of_bucket("copy_in", bytes);
  time.issue_ns = of_bucket("copy_out", bytes).issue_ns;
  return time;
}

/// It has no kernels: on a stream of its own, beside the kernels of the compute stream, it holds no multiprocessor.
WorkPrice CommunicationPrices::transfer(const Work& work) {
  static const std::vector<Kernel> kOne;
  const bool sends =
      is_send(work.kind) || ((work.kind == TaskKind::scatter || work.kind == TaskKind::gather) && !work.receives);
  // A peer copy is issued by the sender alone. Who needs what came waits for it: a wait that is issued with the
  // receive, or where no receive is a task of its own, counted with the send.
  const bool issues = sends || plan_.spec.transport != Transport::copy;
  const bool calls = issues && !(work.same_call && calls_.batches_messages);
  const double issue_ns = (calls ? calls_.transfer_issue_ns : 0) + (sends && has_receives_ ? 0 : calls_.wait_issue_ns);
  KernelList& kernels = of_transfer_;
  kernels.clear();
  if (plan_.parallel.program == Program::pytorch_pipeline && !on_host_) {
    kernels.add_collective(transfers_.at(work.from_worker, work.to_worker, work.bytes), issue_ns,
                           blocks_of_message(plan_.parallel.mesh.pp));
    return of_kernels(kernels);
  }
  kernels.add({transfers_.at(work.from_worker, work.to_worker, work.bytes), issue_ns, &kOne});
  const bool by_sending_host = plan_.spec.transport == Transport::copy && sends;
  return {by_sending_host && on_host_ ? kernels.cost_on_host() : kernels.cost(std::llround(calls_.launch_latency_ns))};
}

}  // namespace pdl
