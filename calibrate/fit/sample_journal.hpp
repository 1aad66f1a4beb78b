// A calibration that is under way, as a file: each sample as it comes, a line each, so that an interrupted one can go
// on.
//
//   {"format": "pdl-calibration-1", "environment": {"card": ...}, "settings": {"gpus": 2, ...}}
//   {"part": "host", "sample": {"probe": "host", ...}}
//   {"part": "products fp32", "products": {...}}
//   {"part": "host", "seconds": 2.3}                          part "host" is complete
//
//   SampleJournal journal("samples.json.partial", environment, settings, SampleJournal::Start::resume);
//   if (!journal.has("host")) { journal.add("host", sample); journal.finish("host", 2.3); }
//   journal.samples();                                        of all parts, in the order of the file
//
// What was written of a part that is not complete is measured again: a last line that is cut off is no fault. Nothing
// is read but what this program has written. While it is open no other process can open it (flock).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "calibrate/fit/samples.hpp"

namespace pdl {

class SampleJournal {
 public:
  enum class Start {
    anew,    // a file that is there is refused: what an interrupted calibration measured is not thrown away unasked
    resume,  // what is complete in the file is taken; a file that is not there is begun
  };

  /// `path` empty: kept in memory alone. Throws InputError naming the file: it cannot be written, another process has
  /// it open, it is there; and where it is resumed, its line: it is no such file, or another GPU, count, version or
  /// setting was measured (which one).
  SampleJournal(const std::string& path, nlohmann::json environment, nlohmann::json settings, Start start);
  ~SampleJournal();
  SampleJournal(const SampleJournal&) = delete;
  SampleJournal& operator=(const SampleJournal&) = delete;

  /// Is this part complete?
  bool has(const std::string& part) const { return seconds_.contains(part); }

  /// Throws InputError where the file takes no more.
  void add(const std::string& part, const Sample& sample);
  void add(const std::string& part, const ProductSamples& products);
  void finish(const std::string& part, double seconds);

  /// Of all complete parts; environment: that of the beginning, with probe_seconds by part and, after a resumption, its
  /// dates (resumed). Throws InputError for a sample that no file can hold (NaN, infinite).
  const Samples& samples() const { return samples_; }

  /// What the user should know: there was nothing to resume. Else empty.
  const std::string& note() const { return note_; }

  /// What the parts took that were complete when it was opened.
  double seconds_before() const { return seconds_before_; }

 private:
  void read(const std::string& text, const nlohmann::json& environment, const nlohmann::json& settings);
  void read_head(const JsonPlace& head, const nlohmann::json& environment, const nlohmann::json& settings);
  void read_line(const nlohmann::json& line, std::size_t number);
  void complete(const std::string& part, double seconds);
  void write(const nlohmann::json& line);

  std::string path_, note_;
  int file_ = -1;
  std::size_t complete_bytes_ = 0;  // of the file that was read: up to the end of its last complete part
  Samples samples_;
  std::vector<Sample> of_part_;  // of the part under way
  ProductSamples products_of_part_;
  std::map<std::string, double> seconds_;
  double seconds_before_ = 0;
};

}  // namespace pdl
