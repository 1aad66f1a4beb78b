// What is wrong with the settings of a spec together, though each alone is fine. One function a rule.
//
//   --strategy single --gpus 2        check_single: found single with 2 GPUs, expected gpus 1, or ...
//   --depth 3 --gpus 4                check_layers: found 4 stages for 3 layers, expected ...
//
// Each throws InputError with the place of the setting that is most likely meant otherwise. parse_run_spec.cpp has
// their order: what a check asks of the spec has been read before it. Not here: a setting that says nothing beside
// others, which its row knows (SettingRow::no_meaning), and defaults (defaults.hpp). Internal to sim/spec.
#pragma once

#include <cstdint>

#include "sim/spec/given_words.hpp"
#include "sim/spec/presets.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl::setting_words {

/// tf and tb where any synthetic cost is given. Before any of them is read.
void check_costs_are_complete(const Given& given);
/// A step takes some time.
void check_costs(const Given& given, const RunSpec& spec);

/// At most a million GPUs, where they follow from pp and dp.
void check_number_of_gpus(const Given& given, const RunSpec& spec);
/// gpus = pp x dp. `workers`: GPUs of a pipeline, as given.
void check_mesh(const Given& given, const RunSpec& spec, std::int64_t workers);

/// The schedule is one of the table, or searched.
void check_schedule_is_known(const Given& given, const RunSpec& spec);
/// As many stages a GPU as the schedule takes.
void check_chunks(const Given& given, const RunSpec& spec);
/// One GPU for the program of one.
void check_single(const Given& given, const RunSpec& spec);
/// Not more stages x micro-batches than memory holds. Before anything is made of that size.
void check_cells(const Given& given, const RunSpec& spec);

/// The layers of an mlp, before they are made.
void check_parameters(const Given& given, const RunSpec& spec);
/// Its sizes go together.
void check_transformer(const Given& given, const TransformerSizes& sizes);
/// A head that was asked to have the embedding's weight is on its stage. Of a model with several stages.
void check_tied(const Given& given, const RunSpec& spec);
/// What `model` names is a file, or else is told what it might have been: the config.json of a folder.
void check_model_is_there(const std::string& path);
/// A layer for every stage, of a transformer a block.
void check_layers(const Given& given, const RunSpec& spec);
/// A split has a number for every stage, and they add up.
void check_split(const Given& given, const RunSpec& spec);
/// The schedule's rule for the number of micro-batches.
void check_microbatches(const Given& given, const RunSpec& spec);
/// A list of times has one for every stage.
void check_stage_costs(const Given& given, const RunSpec& spec);

/// Workers that were given are those of the program.
void check_workers(const Given& given, const RunSpec& spec);
/// A transport that was given is one that the program has.
void check_transport(const Given& given, const RunSpec& spec);
/// Processes do not copy into each other's memory.
void check_processes(const Given& given, const RunSpec& spec);
/// One thread for all GPUs gives each of them the same order.
void check_one_thread(const Given& given, const RunSpec& spec);
/// Point-to-point semantics are the transport's, but with synthetic costs.
void check_point_to_point(const Given& given, const RunSpec& spec);
/// What torch.distributed.pipelining has not: of a pipeline of PyTorch's program. Its split backwards and DDP do not go
/// together: stage_backward_weight (_backward.py of PyTorch 2.11) asks torch.autograd.grad for gradients, so that the
/// hooks by which DDP averages them are not called. Nothing says so there: 2 x 2 processes of InterleavedZeroBubble
/// ended each step with gradients that differ between replicas, but for the model's first stage.
void check_pytorch_pipeline(const Given& given, const RunSpec& spec);
/// pdl-run's pipelines with a worker a GPU have no GradScaler: that of amp-fp16 skips a step where a gradient of any
/// worker is not finite, so that all of them would have to wait for each other before the optimizer.
void check_precision(const Given& given, const RunSpec& spec);

/// Stages of PyTorch's pipelines that DDP wraps average their gradients in every round: backward_maybe_with_nosync of
/// stage.py (2.11) prepares the Reducer itself, inside of no_sync() too.
void check_no_sync(const Given& given, const RunSpec& spec);
/// Hosts that sleep are not of PyTorch's pipelines.
void check_sleeps(const Given& given, const RunSpec& spec);
/// PyTorch divides all that a gradient holds at the end of every schedule.step().
void check_scale_grads(const Given& given, const RunSpec& spec);
/// The straggler is a host of the run.
void check_straggler(const Given& given, const RunSpec& spec);
/// Equal shares of the GPUs; several hosts for ddp with measured costs alone.
void check_hosts(const Given& given, const RunSpec& spec);
/// Recomputation of a pipeline needs a schedule with whole backwards, and a worker a GPU.
void check_recompute(const Given& given, const RunSpec& spec);
/// Steps that overlap need a worker a GPU.
void check_overlap(const Given& given, const RunSpec& spec);

/// Synthetic times add up to what 64-bit nanoseconds hold.
void check_total_time(const Given& given, const RunSpec& spec);
/// Bytes of all activations of a step, had it them all at once, are no more than 64 bits hold.
void check_activations(const Given& given, const RunSpec& spec);
/// The same of what replicas exchange: parameters and gradients, in every round of accumulation.
void check_exchanged_bytes(const Given& given, const RunSpec& spec);
/// PyTorch's PipelineStage takes one shape.
void check_equal_microbatches(const Given& given, const RunSpec& spec);
/// Every replica has samples; all of a pipeline's replicas the same number.
void check_replicas(const Given& given, const RunSpec& spec);

}  // namespace pdl::setting_words
