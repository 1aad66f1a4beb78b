// What a step takes at least, before its plan is made: the time that no order, link or host can make shorter, and the
// memory that no order can do without.
//
//   LayerFamilies families(profile);
//   StepBounds bounds(&families);                  // what it has priced of layers, later predictions have at once
//   bounds.will_ask(a); bounds.will_ask(b);        // their pieces are priced together, each once
//   bounds.of(a).compute_ns                        // of the GPU with most: its forwards, backwards, optimizer
//   bounds.of(a).step_ns                           // with the fill and drain that every order of its kind has
//
//   1f1b, 3 GPUs, F = 1, B = 2, 4 micro-batches:   compute 12;  GPU 1: 1 ms until its first forward, 12 ms of work,
//                                                  2 ms of drain below it: step at least 15. GPU 2: 2 + 12 + 4 = 18.
//
// A piece is what Work says: layers, rows, forward or backward, whether it adds to gradients. Its price is that of the
// plan (sim/cost/price.hpp), its device time alone. `naive` has one GPU at work at a time: the sum over its GPUs.
// Where an operation may be done in two ways (a backward whole or split), the shorter one counts.
//
// Split backwards may end with weight gradients, below which nothing drains: these orders count the fill alone.
// No bound of time (zeros): ddp and dp; schedule "auto" before its search. Of orders from files, and where steps
// overlap, the compute alone. Transfers, collectives and hosts count nothing.
//
// Where there are replicas, they count in the second bound, of the first replica: its tasks alone, at fixed rates.
//
//   bound_of_first_replica(b, &families).step_ns   // ddp on 64 GPUs: the tasks of one of them, all-reduces among 64
//
// What the other replicas do, and what runs beside a task, can make the step longer, never shorter; but for the
// nanoseconds that the blocks of a kernel do not share evenly, which this bound leaves out (sim/engine/
// multiprocessors.hpp). It costs a plan of one replica. Units: nanoseconds, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/cost/layer_families.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

struct StepBound {
  std::int64_t compute_ns = 0;  // of the GPU with most
  std::int64_t step_ns = 0;     // at least compute_ns
};

class StepBounds {
 public:
  /// `families`: not used (and may be nullptr) for specs with synthetic costs; else must outlive this. All specs that
  /// are asked for have one model and one optimizer.
  explicit StepBounds(LayerFamilies* families) : families_(families) {}

  /// of(spec) will be asked: what it needs is priced with what others need.
  void will_ask(const RunSpec& spec);

  /// Zeros where the profile cannot price it: the prediction says why.
  StepBound of(const RunSpec& spec);

  /// How many pieces were priced, each once.
  std::int64_t priced_pieces() const { return priced_pieces_; }

 private:
  /// What the price of a piece depends on beside the piece: kernels, number format, and the stages that textbook costs
  /// are of.
  using Context = std::tuple<Implementation, Dtype, std::int64_t>;
  struct Prices {
    RunSpec spec;                                         // one of the context
    std::vector<Work> asked;                              // not priced yet
    std::unordered_map<Work, std::int64_t, WorkHash> ns;  // kNoPrice: not yet, or the profile lacks what it needs
  };
  struct StageTimes;

  Prices& prices_of(const RunSpec& spec);
  void price_what_was_asked(Prices& prices);
  void price_kind(Prices& prices, std::vector<Work> works);
  StageTimes times_of_stage(const RunSpec& spec, const std::vector<Stage>& stages, std::size_t stage,
                            const std::map<std::int64_t, std::int64_t>& counts, Prices& prices) const;

  LayerFamilies* families_;
  static constexpr std::int64_t kNoPrice = -1;

  std::map<Context, Prices> prices_;
  std::int64_t priced_pieces_ = 0;
};

/// Of a step with replicas, from the tasks of the first one.
struct ReplicaBound {
  std::int64_t compute_ns = 0;       // of the GPU with most: forwards, backwards, optimizer
  std::int64_t without_host_ns = 0;  // the step of the replica, if its hosts took no time
  std::int64_t step_ns = 0;          // and with its hosts: at least both

  /// What a host that takes no time would save, of the step of the replica.
  double host_share() const;
};

/// `planned`: on the device and hosts of the profile (planned_spec.hpp). Where steps overlap, the compute alone: a GPU
/// that begins later has a shorter step. Throws as make_plan() and price_by_profile().
ReplicaBound bound_of_first_replica(const RunSpec& planned, LayerFamilies* families);

/// Parameters, gradients and optimizer state of the GPU with most of them; 0 for "auto" before its search.
std::int64_t least_memory_bytes(const RunSpec& spec);

}  // namespace pdl
