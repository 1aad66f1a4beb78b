// Reads what the programs of nccl-tests print, as samples of collectives.
//
//   # Collective test starting: all_reduce_perf
//   # nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 ...
//   #  Rank  0 Group  0 Pid   8756 on   node1 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
//   #  Rank  1 ...
//   #                                                       out-of-place                       in-place
//   #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw
//   #wrong #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s) (GB/s)
//          1024           256     float     sum      -1    16.94    0.06    0.06      0    16.17    0.06    0.06      0
//   # Out of bounds values : 0 OK
//   # Avg bus bandwidth    : 0.06
//
// Source: NVIDIA/nccl-tests 2.19.6, src/util.cu (writeResultHeader, writeBenchmarkLineBody, jsonOutputInit),
// src/common.cu, and its older forms: without "Collective test starting", without the column root, with a column error
// in the place of #wrong, with rates of all_gather and reduce_scatter that count the other ranks' parts only
// (before 2.1). Lines may have the tags of mpirun --tag-output, srun -l, or a host's name; a file may be the JSON
// report of -J.
//
// Bytes are nccl-tests' own: of the whole buffer, the larger of what a rank gives and what it gets. The time taken is
// the in-place one, as training calls its collectives. Several cycles (-N) are several values of a size. The hosts are
// those that the lines of the ranks name. Ranks that were split into groups (NCCL_TESTS_SPLIT) are as many as one group
// has. Units: us. Not here: the sizes that the files do not hold, several data types or operations in one file
// (refused).
#pragma once

#include <string>
#include <vector>

#include "calibrate/fit/samples.hpp"

namespace pdl {

/// What the text may not say. Where it does, both must agree.
struct NcclTestsOptions {
  std::string collective;  // all_reduce, all_gather, broadcast, reduce, reduce_scatter; empty: from the text
  std::int64_t ranks = 0;  // 0: from the text
  std::int64_t hosts = 0;  // on which those ranks were; 0: from the text
};

struct NcclTests {
  std::string collective;
  std::int64_t ranks = 0;               // of a group, where they were split into several
  std::int64_t hosts = 1;               // of these ranks, as their lines name them; 1 (a doubt) where nobody says
  std::string card;                     // as the lines of the ranks name it; empty: they do not
  std::int64_t rows_without_bytes = 0;  // rows of 0 bytes (small sizes of all_gather), which measure nothing
  bool checked = false;                 // results were verified (#wrong), not "N/A"
  /// Why its times are not those of a call as training makes it; repeated in predictions.
  std::vector<std::string> doubts;
  std::vector<Sample> samples;  // ascending bytes
};

/// all_reduce, all_gather, broadcast, reduce, reduce_scatter.
const std::vector<std::string>& nccl_tests_collectives();

/// Of a table or of a JSON report (it begins with '{'). Throws InputError that names `place` and the line, or the value
/// of a report, what was found and what was expected: no header, no unit, no row, a row that is cut off or in between
/// other text, sizes that neither ascend nor begin another cycle, a time that is not positive and finite, a wrong
/// result, rates that contradict the time, the ranks or the operation, an end without "Out of bounds values", two ranks
/// on one GPU, hosts or groups of different size, ranks that do not spread evenly over the hosts of `options`, a test
/// of something that no step calls (alltoall_perf).
NcclTests parse_nccl_tests(const std::string& text, const std::string& place, const NcclTestsOptions& options = {});

/// Reads a file of at most 64 MiB. Throws InputError as above, or if it cannot be read.
NcclTests load_nccl_tests(const std::string& path, const NcclTestsOptions& options = {});

/// Outputs of one operation, ranks, hosts and size whose times differ by more than this factor are not of one machine,
/// or not both of an idle one: a doubt.
inline constexpr double kNcclTestsAgree = 2;

/// Adds the samples, and to the environment under "nccl_tests" what was read, under "nccl_tests_doubts" which outputs
/// contradict each other. Where there are no other samples: the device, the card and the largest number of ranks as
/// count too. The same whatever the order of the files. Throws InputError if the card is not the one of the samples.
void add_nccl_tests(const NcclTests& tests, const std::string& place, Samples& samples);

/// What the environment of samples says of one output.
struct NcclTestsNote {
  std::string collective;
  std::int64_t ranks = 0;
  std::int64_t rows = 0;
  std::vector<std::string> doubts;
};

/// Throws InputError naming the place, if "nccl_tests" or "nccl_tests_doubts" is not what add_nccl_tests writes.
std::vector<NcclTestsNote> read_nccl_tests_notes(const JsonPlace& environment);

/// What the outputs say against themselves and each other: "nccl-tests, all_reduce of 4 ranks: ...". Throws as above.
std::vector<std::string> nccl_tests_doubts(const JsonPlace& environment);

}  // namespace pdl
