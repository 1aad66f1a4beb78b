// How it is run: number format, optimizer, what moves data between GPUs, what issues work to them.
#include "sim/spec/setting_words.hpp"
#include "sim/spec/settings/rows.hpp"

namespace pdl::setting_rows {

using namespace setting_words;

std::vector<SettingRow> execution() {
  return {
      {.name = "dtype",
       .value_name = any_of(kDtypes),
       .help = "number format of the matrix products",
       .usual = "fp32",
       .values = Values::word,
       .turn = Turn::dtype,
       .read = [](const SettingValue& value, const Range&, RunSpec& spec) { spec.dtype = parse_word(kDtypes, value); },
       .write = [](const RunSpec& spec) { return std::optional(to_string(spec.dtype)); },
       .in_run_name = [](const RunSpec& spec) { return "_" + to_string(spec.dtype); },
       .name_place = NamePlace::execution},
      {.name = "optimizer",
       .value_name = any_of(kOptimizers),
       .help = "optimizer",
       .usual = "sgd",
       .values = Values::word,
       .turn = Turn::workers,
       .read = [](const SettingValue& value, const Range&,
                  RunSpec& spec) { spec.optimizer = parse_word(kOptimizers, value); },
       .write = [](const RunSpec& spec) { return std::optional(to_string(spec.optimizer)); },
       .in_run_name = [](const RunSpec& spec) { return "_" + to_string(spec.optimizer); },
       .name_place = NamePlace::execution},
      {.name = "transport",
       .value_name = any_of(kTransports),
       .help = "how stages exchange activations, and ddp's replicas their gradients",
       .usual_words = "default copy; ddp: nccl, on CPU gloo; program pytorch: nccl, on CPU gloo",
       .values = Values::word,
       .turn = Turn::transport,
       .read = [](const SettingValue& value, const Range&,
                  RunSpec& spec) { spec.transport = parse_word(kTransports, value); },
       .write = [](const RunSpec& spec) { return std::optional(to_string(spec.transport)); },
       .in_run_name = [](const RunSpec& spec) { return "_" + to_string(spec.transport); },
       .name_place = NamePlace::execution},
      {.name = "p2p",
       .value_name = any_of(kPointToPoint),
       .help = "whether a send waits for its receive",
       .usual_words = "default: as the transport does",
       .values = Values::word,
       .turn = Turn::p2p,
       .read = [](const SettingValue& value, const Range&,
                  RunSpec& spec) { spec.p2p = parse_word(kPointToPoint, value); },
       .write = [](const RunSpec& spec) { return std::optional(to_string(spec.p2p)); },
       .meaningful = "another than the transport's: synthetic costs",
       .in_run_name =
           [](const RunSpec& spec) {
             return spec.p2p == point_to_point_of(spec.transport) ? "" : "_" + to_string(spec.p2p);
           },
       .name_place = NamePlace::last},
      {.name = "workers",
       .value_name = any_of(kWorkers),
       .help = "a process a GPU, a thread a GPU, or one thread for all",
       .usual_words =
           "default thread; ddp: process; mp, and one GPU with amp: one; program pytorch: process, on one GPU one",
       .values = Values::word,
       .turn = Turn::workers,
       .read = [](const SettingValue& value, const Range&,
                  RunSpec& spec) { spec.workers = parse_word(kWorkers, value); },
       .write = [](const RunSpec& spec) { return std::optional(to_string(spec.workers)); },
       .in_run_name = [](const RunSpec& spec) { return "_" + to_string(spec.workers); },
       .name_place = NamePlace::execution},
      {.name = "program",
       .value_name = any_of(kProgramsOf),
       .help = "whose program of the step: that of pdl-run, or what PyTorch does for a Python script",
       .usual = "pdl",
       .values = Values::word,
       .turn = Turn::strategy,
       .read = [](const SettingValue& value, const Range&,
                  RunSpec& spec) { spec.program = parse_word(kProgramsOf, value); },
       .write = [](const RunSpec& spec) { return std::optional(to_string(spec.program)); },
       .written_if_usual = false,
       .in_run_name =
           [](const RunSpec& spec) { return spec.program == ProgramOf::pdl ? "" : "_" + to_string(spec.program); },
       .name_place = NamePlace::execution},
  };
}

}  // namespace pdl::setting_rows
