// Builds what an output of nccl-tests says from its ranks, settings and rows, one after another, and checks each: what
// the readers of both forms, the printed table and the JSON report, fill in.
//
//   NcclTestsBuilder builder("f.txt", options);
//   builder.name_test("f.txt: line 1", "all_reduce_perf");
//   builder.add_rank({.place = "f.txt: line 4", .rank = 0, .host = "node1", .gpu = "0000:1b:00"});   // and the others
//   builder.add_row({.place = "f.txt: line 9", .bytes = 1024, .count = 256, .type = "float", .time_us = 16.17, ...});
//   NcclTests tests = builder.finish();
//
// Internal to the readers of both forms; places are what refusals begin with. Units: bytes, us, GB/s (1e9 bytes).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit/nccl_tests.hpp"

namespace pdl {

struct NcclTestsRank {
  std::string place;
  std::int64_t rank = 0;
  std::int64_t group = 0;
  std::string host;  // empty: not said
  std::string gpu;   // its PCI address, or its number on the host; empty: not said
  std::string card;
};

struct NcclTestsRow {
  std::string place;
  std::int64_t bytes = 0;
  std::int64_t count = 0;  // elements, of the whole buffer or of a rank's part
  std::string type;        // "float"
  std::string redop;       // "sum"; empty: not said
  double time_us = 0;      // in place
  double algorithm_gb_per_s = 0;
  double bus_gb_per_s = 0;
};

/// Of nccl-tests' names of data types; nothing for a name that is not known.
std::optional<std::int64_t> bytes_of_type(const std::string& type);

class NcclTestsBuilder {
 public:
  NcclTestsBuilder(std::string place, const NcclTestsOptions& options);

  /// "all_reduce_perf", "all_reduce_perf_mpi"; other words mean nothing. Refuses other tests of nccl-tests.
  void name_test(const std::string& place, const std::string& word);
  void add_rank(const NcclTestsRank& rank);
  void add_row(const NcclTestsRow& row);
  void results_were_checked() { tests_.checked = true; }
  void doubt(const std::string& text) { tests_.doubts.push_back(text); }
  void launched_by_graph(std::int64_t launches);
  void blocked();
  /// Calls of which a time is the mean, and calls before them.
  void calls(std::int64_t warmup, std::int64_t counted);

  /// With bytes.
  std::size_t rows() const { return rows_.size(); }
  NcclTests finish();

 private:
  void settle_ranks();
  void settle_group(std::int64_t group);
  void settle_hosts(const std::vector<NcclTestsRank>& of_group);
  void settle_cards();
  void check_count(const NcclTestsRow& row) const;
  void check_rates(const NcclTestsRow& row) const;

  std::string place_;
  NcclTestsOptions options_;
  NcclTests tests_;
  std::map<std::int64_t, NcclTestsRank> ranks_;
  std::map<std::string, std::int64_t> gpus_;  // host and GPU -> rank
  std::vector<NcclTestsRow> rows_;
  std::int64_t warmup_calls_ = 0;
  std::int64_t calls_ = 1;
};

}  // namespace pdl
