// What a spec has where the user said nothing and it follows from other settings; and what a word stands for: a file of
// a schedule or of a model. A default that follows from nothing is a field's own (sim/spec/run_spec.hpp).
//
//   --gpus 8 --dp 2          fill_in_gpus: pipelines of 4 GPUs
//   --gpus 4                 fill_in_strategy: pp; fill_in_microbatches: 8
//   --strategy ddp           fill_in_transport: nccl
//
// parse_run_spec.cpp calls each as soon as what it asks of the spec is known. Throws InputError where a cross-check
// belongs into the middle of it. Internal to sim/spec.
#pragma once

#include "sim/spec/given_words.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl::setting_words {

/// gpus = pp x dp: two of them give the third.
void fill_in_gpus(const Given& given, RunSpec& spec);

void fill_in_strategy(const Given& given, RunSpec& spec);

/// Naive, or 1F1B with a worker a GPU, or GPipe with one thread for all of them.
void fill_in_schedule(const Given& given, RunSpec& spec);

/// Loads the schedule's file, which fixes GPUs, chunks and micro-batches, or looks the name up, which has a number of
/// chunks by default. Throws InputError: no such schedule or file, numbers that differ from the file's.
void resolve_schedule(const Given& given, RunSpec& spec);

/// A batch is cut for workers of a pipeline to take turns. Where nothing takes turns a cut only makes products smaller:
/// whole, or in as few micro-batches as the schedule can do with (dualpipe-v on one GPU: 2).
void fill_in_microbatches(const Given& given, RunSpec& spec);

/// Makes the layers, or loads their file; a transformer's settings are all there afterwards, and its head is not tied
/// where there are several stages. A model that takes tokens has a batch of 8 where none was given. Throws InputError:
/// too large, no such file, sizes that do not go together.
void resolve_model(const Given& given, RunSpec& spec);

/// The programs of LibTorch's autograd have one thread: mp and the one-GPU program under autocast.
Workers default_workers(const RunSpec& spec);

Transport default_transport(const RunSpec& spec);

/// Of synthetic costs: a sample for every micro-batch at least, all alike.
void fill_in_batch(const Given& given, RunSpec& spec);

}  // namespace pdl::setting_words
