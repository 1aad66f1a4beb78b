// From the user's words to a spec: the rows of the table of settings, the defaults and the cross-checks, in the order
// in which they need each other, which is the order in which a user is told of mistakes.
#include <utility>
#include <vector>

#include "sim/io/error.hpp"
#include "sim/spec/cross_checks.hpp"
#include "sim/spec/defaults.hpp"
#include "sim/spec/given_words.hpp"
#include "sim/spec/run_spec.hpp"
#include "sim/spec/settings.hpp"

namespace pdl {

using namespace setting_words;

namespace {

void refuse_without_meaning(const SettingRow& row, const SettingValue& value, const RunSpec& spec) {
  const auto refusal = row.no_meaning(value, spec);
  if (!refusal) return;
  if (refusal->rest_may_stand) throw WithoutMeaning(value.place, refusal->found, refusal->expected, row.name);
  throw InputError(value.place, refusal->found, refusal->expected);
}

/// Reads what belongs to this turn.
class Reading {
 public:
  Reading(const Given& given, RunSpec& spec) : spec_(spec) {
    for (const SettingRow& row : all_settings()) {
      if (const SettingValue* value = find(given, row.name)) given_.emplace_back(&row, value);
    }
  }

  void take(Turn turn) {
    for (const auto& [row, value] : given_) {
      if (row->no_meaning && row->asked == turn) refuse_without_meaning(*row, *value, spec_);
    }
    for (const auto& [row, value] : given_) {
      if (row->turn == turn) row->read(*value, row->range, spec_);
    }
  }

 private:
  std::vector<std::pair<const SettingRow*, const SettingValue*>> given_;  // in the order of the table
  RunSpec& spec_;
};

/// GPUs, what each has of the model and of the batch, the order of the work.
void read_shape(Reading& reading, const Given& given, RunSpec& spec) {
  check_costs_are_complete(given);
  reading.take(Turn::costs);
  check_costs(given, spec);
  reading.take(Turn::gpus);
  fill_in_gpus(given, spec);
  reading.take(Turn::amounts);
  reading.take(Turn::strategy);
  fill_in_strategy(given, spec);
  fill_in_schedule(given, spec);
  reading.take(Turn::schedule);
  resolve_schedule(given, spec);
  fill_in_microbatches(given, spec);
  reading.take(Turn::stages);
  check_single(given, spec);
  check_cells(given, spec);
  reading.take(Turn::model);
  reading.take(Turn::layers);
  resolve_model(given, spec);
  check_layers(given, spec);
  check_split(given, spec);
  check_microbatches(given, spec);
  check_stage_costs(given, spec);
}

/// Number format, workers and what moves data between them.
void read_execution(Reading& reading, const Given& given, RunSpec& spec) {
  reading.take(Turn::dtype);
  reading.take(Turn::loss_scale);
  spec.workers = default_workers(spec);
  reading.take(Turn::workers);
  check_workers(given, spec);
  spec.transport = default_transport(spec);
  reading.take(Turn::transport);
  check_transport(given, spec);
  check_processes(given, spec);
  check_one_thread(given, spec);
  check_pytorch_pipeline(given, spec);
  spec.p2p = point_to_point_of(spec.transport);
  reading.take(Turn::p2p);
  check_point_to_point(given, spec);
  check_precision(given, spec);
}

/// Exchange of gradients, hosts, what is measured, options of pipelines.
void read_options(Reading& reading, const Given& given, RunSpec& spec) {
  reading.take(Turn::buckets);
  check_scale_grads(given, spec);
  reading.take(Turn::no_sync);
  check_no_sync(given, spec);
  reading.take(Turn::sleeps);
  check_sleeps(given, spec);
  check_straggler(given, spec);
  reading.take(Turn::measurement);
  reading.take(Turn::hosts);
  check_hosts(given, spec);
  reading.take(Turn::network);
  reading.take(Turn::recompute);
  check_recompute(given, spec);
  reading.take(Turn::overlap);
  check_overlap(given, spec);
  reading.take(Turn::totals);
}

}  // namespace

RunSpec parse_run_spec(std::span<const SettingValue> values) {
  return parse_run_spec(values, nullptr);
}

RunSpec parse_run_spec(std::span<const SettingValue> values, std::shared_ptr<const ScheduleFile> schedule_file) {
  const Given given = collect(values);
  RunSpec spec;
  for (const auto& [name, value] : given) spec.given.insert(name);
  spec.schedule_file = std::move(schedule_file);
  Reading reading(given, spec);
  read_shape(reading, given, spec);
  read_execution(reading, given, spec);
  read_options(reading, given, spec);
  fill_in_batch(given, spec);
  check_total_time(given, spec);
  check_activations(given, spec);
  check_exchanged_bytes(given, spec);
  check_replicas(given, spec);
  check_equal_microbatches(given, spec);
  return spec;
}

}  // namespace pdl
