#include "calibrate/fit/sample_journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"

namespace pdl {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "pdl-calibration-1";

// What must be as it was when a calibration goes on.
constexpr const char* kSameHost[] = {"card", "count", "device",          "cpu",   "driver", "cuda",
                                     "nccl", "torch", "multiprocessors", "python"};

/// From its beginning. Throws InputError where it cannot be read, or is larger than a journal can be.
std::string whole_file(int file, const std::string& path) {
  constexpr std::size_t kLargest = std::size_t{1} << 30;
  std::string text;
  char part[1 << 16];
  while (true) {
    const ssize_t count = pread(file, part, sizeof part, static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw InputError(path, std::strerror(errno), "a file that can be read");
    if (count == 0) return text;
    text.append(part, static_cast<std::size_t>(count));
    if (text.size() > kLargest) throw InputError(path, "more than 1 GiB", "an interrupted calibration");
  }
}

std::string value_text(const json& object, const std::string& key) {
  return object.contains(key) ? object.at(key).dump() : "nothing";
}

void check_same(const std::string& place, const json& before, const json& now, const std::string& key) {
  if (value_text(before, key) == value_text(now, key)) return;
  throw InputError(place, key + " " + value_text(before, key) + " in the calibration that was interrupted",
                   value_text(now, key) + ", as now; without this file it begins anew");
}

}  // namespace

SampleJournal::SampleJournal(const std::string& path, json environment, json settings, Start start) : path_(path) {
  samples_.environment = environment;
  if (path_.empty()) return;
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw InputError(path_, std::strerror(errno), "a file that can be written");
  try {
    if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
      throw InputError(path_, "a file that another calibration is writing", "one calibration a file");
    }
    const std::string before = whole_file(file_, path_);
    if (start == Start::resume) read(before, environment, settings);
    if (start == Start::resume && complete_bytes_ == 0) note_ = "nothing to resume in " + path_ + ": it begins anew";
    if (start == Start::anew && !before.empty()) {
      throw InputError(path_, "what an interrupted calibration had measured",
                       "--resume to go on with it, or no such file to begin anew");
    }
    const auto keep = static_cast<off_t>(complete_bytes_);
    if (ftruncate(file_, keep) != 0 || lseek(file_, keep, SEEK_SET) != keep) {
      throw InputError(path_, std::strerror(errno), "a file that can be written");
    }
    if (complete_bytes_ == 0)
      write({{"format", kFormat}, {"environment", std::move(environment)}, {"settings", std::move(settings)}});
  } catch (...) {
    close(file_);
    throw;
  }
}

SampleJournal::~SampleJournal() {
  if (file_ >= 0) close(file_);
}

void SampleJournal::read(const std::string& text, const json& environment, const json& settings) {
  std::size_t begin = 0;
  for (std::size_t number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // cut off
    const std::string place = path_ + ":" + std::to_string(number);
    const json line = parse_json(text.substr(begin, end - begin), place);
    if (number > 1) {
      read_line(line, number);
      if (line.contains("seconds")) complete_bytes_ = end + 1;
    } else {
      read_head(JsonPlace(line, place), environment, settings);
      complete_bytes_ = end + 1;
    }
    begin = end + 1;
  }
  of_part_.clear();
  products_of_part_ = {};
  for (const auto& [part, seconds] : seconds_) seconds_before_ += seconds;
}

void SampleJournal::read_head(const JsonPlace& head, const json& environment, const json& settings) {
  if (head.at("format").text() != kFormat) head.at("format").refuse(json(kFormat).dump());
  const json before = head.at("environment").object().json(), asked = head.at("settings").object().json();
  for (const char* key : kSameHost) check_same(head.name(), before, environment, key);
  for (const auto& [key, value] : settings.items()) check_same(head.name(), asked, settings, key);
  const JsonPlace place = head.at("environment");
  if (place.has("resumed")) place.at("resumed").array();
  if (place.has("probe_seconds")) place.at("probe_seconds").object();
  samples_.environment = before;
  samples_.environment["resumed"].push_back(environment.value("date", "?"));
}

void SampleJournal::read_line(const json& line, std::size_t number) {
  const JsonPlace place(line, path_ + ":" + std::to_string(number));
  const std::string part = place.at("part").text();
  if (place.has("sample")) {
    of_part_.push_back(sample_from_json(place.at("sample")));
    return;
  }
  if (place.has("products")) {
    append(products_of_part_, product_samples_from_json(place.at("products")));
    return;
  }
  complete(part, place.at("seconds").number(0, 1e9));
}

void SampleJournal::add(const std::string& part, const Sample& sample) {
  check_finite(sample, path_.empty() ? "samples" : path_);
  of_part_.push_back(sample);
  write({{"part", part}, {"sample", to_json(sample)}});
}

void SampleJournal::add(const std::string& part, const ProductSamples& products) {
  append(products_of_part_, products);
  write({{"part", part}, {"products", to_json(products)}});
}

void SampleJournal::finish(const std::string& part, double seconds) {
  const double tenths = std::round(seconds * 10) / 10;
  write({{"part", part}, {"seconds", tenths}});
  complete(part, tenths);
}

void SampleJournal::complete(const std::string& part, double seconds) {
  seconds_[part] = seconds;
  samples_.environment["probe_seconds"][part] = seconds;
  for (Sample& sample : of_part_) samples_.samples.push_back(std::move(sample));
  of_part_.clear();
  if (!products_of_part_.empty()) append(samples_.products, products_of_part_);
  products_of_part_ = {};
}

/// In one call of write(): a process that is killed leaves whole lines, or one that is cut off at the end.
void SampleJournal::write(const json& line) {
  if (file_ < 0) return;
  const std::string text = line.dump() + "\n";
  const char* rest = text.data();
  std::size_t left = text.size();
  while (left > 0) {
    const ssize_t written = ::write(file_, rest, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw InputError(path_, std::strerror(errno), "a place that takes the samples");
    rest += written;
    left -= static_cast<std::size_t>(written);
  }
}

}  // namespace pdl
