// The file of a sweep under way (--resume FILE): its rows as they are predicted, so that an interrupted sweep goes on
// with the others.
//
//   {"format": "pdl-sweep-rows-1", "sweep": "gpus 4, schedule gpipe,1f1b", "costs": "h200x4 8d2f...", "rows": 6}
//   {"row": 0, ...}                                                        a line a row (sim/study/sweep_record.hpp)
//   {"row": 3, ...                                                         cut off: predicted again
//
// While a sweep writes the file no other one can. Not here: which rows are left.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "sim/study/sweep_record.hpp"

namespace pdl {

/// What must be the same for rows to be those of a sweep.
struct SweepIdentity {
  std::string sweep;  // the words
  std::string costs;  // profile, what is in it, version of the program
  std::size_t rows = 0;
  bool operator==(const SweepIdentity&) const = default;
};

class SweepJournal {
 public:
  /// Makes the file, or opens the one that is there. Throws InputError with the file: that of another sweep, profile or
  /// version, no such file at all, in use by another process, cannot be written.
  SweepJournal(const std::string& path, const SweepIdentity& identity);
  SweepJournal(const SweepJournal&) = delete;
  SweepJournal& operator=(const SweepJournal&) = delete;
  ~SweepJournal();

  /// The rows that were in it.
  const std::vector<SweepRecord>& found() const { return found_; }

  /// By several threads. Throws InputError if the disk is full.
  void add(const SweepRecord& record);

 private:
  void read(const SweepIdentity& identity);
  void write(const std::string& line);

  std::string path_;
  int descriptor_ = -1;
  std::mutex mutex_;
  std::vector<SweepRecord> found_;
};

}  // namespace pdl
