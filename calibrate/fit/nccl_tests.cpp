#include "calibrate/fit/nccl_tests.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "sim/spec/error.hpp"
#include "sim/spec/json_place.hpp"
#include "sim/spec/words.hpp"

namespace pdl {
namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 20;
constexpr std::int64_t kLargestBytes = std::int64_t{1} << 60;
// Rates are printed with two decimals, times above 10 s with two digits.
constexpr double kRateTolerance = 0.05;
constexpr double kRateRounding = 0.011;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::optional<std::int64_t> whole(const std::string& word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// Any number that a text can hold, "nan" and "inf" too.
std::optional<double> number(const std::string& word) {
  double value = 0;
  const char* begin = word.data() + (word.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// "[1,0]<stdout>:#  Rank ..." without what mpirun --tag-output puts before it, "0: #  Rank ..." without srun -l's.
std::string without_tag(const std::string& line) {
  const std::size_t digits = line.find_first_not_of("0123456789");
  if (digits != std::string::npos && digits > 0 && line.compare(digits, 2, ": ") == 0) return line.substr(digits + 2);
  if (!line.starts_with('[')) return line;
  const std::size_t end = line.find(">:");
  return end == std::string::npos || line.substr(0, end).find("]<") == std::string::npos ? line : line.substr(end + 2);
}

/// Of nccl-tests' names of data types; nothing for a name that is not known.
std::optional<std::int64_t> bytes_of_type(const std::string& type) {
  static const std::map<std::string, std::int64_t> bytes = {
      {"int8", 1},  {"uint8", 1},  {"char", 1},  {"f8e4m3", 1}, {"f8e5m2", 1}, {"half", 2},   {"bfloat16", 2}, {"float16", 2},
      {"int32", 4}, {"uint32", 4}, {"int", 4},   {"float", 4},  {"int64", 8},  {"uint64", 8}, {"double", 8}};
  const auto found = bytes.find(type);
  return found == bytes.end() ? std::nullopt : std::optional(found->second);
}

/// Bus bandwidth over algorithm bandwidth (nccl-tests' doc/PERFORMANCE.md).
double bus_factor(const std::string& collective, std::int64_t ranks) {
  const double n = static_cast<double>(ranks);
  if (collective == "all_reduce") return 2 * (n - 1) / n;
  if (collective == "all_gather" || collective == "reduce_scatter") return (n - 1) / n;
  return 1;
}

bool agree(double a, double b) { return std::abs(a - b) <= kRateTolerance * std::max(a, b) + kRateRounding; }

class Reader {
 public:
  Reader(const std::string& place, const NcclTestsOptions& options) : place_(place), options_(options) {
    tests_.collective = options.collective;
  }

  NcclTests read(const std::string& text) {
    if (text.find('\0') != std::string::npos) refuse_file("a file that is not text", "the output of nccl-tests");
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      ++line_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      take(without_tag(line));
    }
    return finish();
  }

 private:
  enum class Part { before, table, after };

  std::string here() const { return place_ + ": line " + std::to_string(line_); }
  [[noreturn]] void refuse(const std::string& found, const std::string& expected) const {
    throw InputError(here(), found, expected);
  }
  [[noreturn]] void refuse_file(const std::string& found, const std::string& expected) const {
    throw InputError(place_, found, expected);
  }

  void take(const std::string& line) {
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) return;
    name_collective(words);
    if (words[0].starts_with('#')) return comment(line, words);
    if (part_ == Part::table && is_log(words)) return log(words);
    if (part_ == Part::table) return row(words);
    const bool like_a_row = words.size() > 4 && whole(words[0]) && whole(words[1]) && !number(words[2]);
    if (like_a_row) refuse("a row of measurements outside the table", "it after the header with its units, '(us)', and before 'Out of bounds values'");
  }

  /// What NCCL and MPI write in between.
  static bool is_log(const std::vector<std::string>& words) {
    if (words[0] == "NCCL" && words.size() > 1 && words[1] == "version") return true;
    return std::find(words.begin(), words.end(), "NCCL") != words.end() &&
           (std::find(words.begin(), words.end(), "INFO") != words.end() || std::find(words.begin(), words.end(), "WARN") != words.end());
  }

  /// Passed over, unless another process wrote it into a line with a row.
  void log(const std::vector<std::string>& words) const {
    for (std::size_t i = 0; i + 5 < words.size(); ++i) {
      if (whole(words[i]) && whole(words[i + 1]) && bytes_of_type(words[i + 2])) {
        refuse("a row and what NCCL logged in one line", "each in a line of its own (NCCL_DEBUG=WARN logs less)");
      }
    }
  }

  /// "all_reduce_perf" in a comment or in the command line that someone pasted with it.
  void name_collective(const std::vector<std::string>& words) {
    for (std::string word : words) {
      word.erase(0, word.rfind('/') == std::string::npos ? 0 : word.rfind('/') + 1);
      if (!word.ends_with("_perf")) continue;
      const std::string name = word.substr(0, word.size() - 5);
      if (std::find(nccl_tests_collectives().begin(), nccl_tests_collectives().end(), name) == nccl_tests_collectives().end()) {
        refuse(word, "a test of " + list_words(nccl_tests_collectives()) + ", with _perf");
      }
      if (!tests_.collective.empty() && tests_.collective != name) {
        refuse(word, tests_.collective + "_perf, as " + (options_.collective == tests_.collective ? "--collective says" : "a line before says") +
                         " (one test a file)");
      }
      tests_.collective = name;
    }
  }

  void comment(const std::string& line, const std::vector<std::string>& words) {
    const auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
    if (words.size() > 2 && (words[1] == "Rank" || words[0] == "#Rank")) return rank(line, words);
    if (has("nThread") && has("iters:")) return settings(words);
    if (has("size") && has("count") && (has("time") || has("cputime"))) return header(words);
    if (has("(B)") && has("(elements)")) return units(words);
    if (line.find("Out of bounds values") != std::string::npos) return footer(words);
    if (words.size() > 1 && words[1] == "error:") refuse(line, "a test that ended without an error");
  }

  void settings(const std::vector<std::string>& words) {
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
      const auto value = whole(words[i + 2]);
      if (words[i + 1] != "iters:" || !value) continue;
      if (words[i] == "warmup") warmup_calls_ = *value;
      if (words[i] == "agg") calls_ *= std::max<std::int64_t>(*value, 1);
    }
    for (std::size_t i = 1; i + 1 < words.size(); ++i) {
      const auto value = whole(words[i + 1]);
      if (words[i] != "iters:" || words[i - 1] == "warmup" || words[i - 1] == "agg" || !value) continue;
      if (*value > 0) calls_ *= *value;
    }
  }

  void rank(const std::string& line, const std::vector<std::string>& words) {
    const auto value = whole(words[words[0] == "#" ? 2 : 1]);
    if (!value || *value < 0) refuse(line, "'#  Rank  0 ...'");
    if (part_ != Part::before) refuse("a rank after the header of the table", "one test a file");
    if (!ranks_.insert(*value).second) {
      refuse("rank " + std::to_string(*value) + " a second time",
             "each rank once (several processes that each say rank 0: nccl-tests was built without MPI, and each measured alone)");
    }
    const std::size_t bracket = line.rfind(']');
    if (bracket == std::string::npos || bracket + 2 > line.size()) return;
    std::string card = line.substr(bracket + 1);
    card.erase(0, card.find_first_not_of(" \t"));
    card.erase(card.find_last_not_of(" \t") + 1);
    if (!card.empty()) cards_.insert(card);
  }

  void header(const std::vector<std::string>& words) {
    if (!columns_.empty()) refuse("a second header", "one test a file");
    columns_.assign(words.begin() + 1, words.end());
    const auto first = std::find_if(columns_.begin(), columns_.end(), [](const std::string& name) { return name == "time" || name == "cputime"; });
    if (*first == "cputime") refuse("cputime, the time of the host's calls (-C)", "time");
    leading_ = static_cast<std::size_t>(first - columns_.begin());
    for (std::size_t c = leading_; c < columns_.size(); ++c) {
      if (columns_[c] == "time") times_.push_back(c - leading_);
    }
    const auto has = [&](const char* name) { return std::find(columns_.begin(), columns_.end(), name) != columns_.end(); };
    if (times_.size() != 2 || !has("algbw") || !has("busbw")) refuse("columns without time algbw busbw twice", "size count type redop root time algbw busbw #wrong, the last four for out-of-place and in-place");
    in_place_ = times_[1];
    if (columns_.size() - leading_ < in_place_ + 3 || columns_[leading_ + in_place_ + 1] != "algbw" || columns_[leading_ + in_place_ + 2] != "busbw") {
      refuse("other columns after the second time", "time algbw busbw");
    }
    header_line_ = line_;
  }

  void units(const std::vector<std::string>& words) {
    if (columns_.empty()) refuse("units before the header", "the header, size count type ..., before them");
    if (part_ != Part::before) refuse("a second line of units", "one test a file");
    const auto count = [&](const char* unit) { return std::count(words.begin(), words.end(), unit); };
    if (count("(us)") < 2) refuse("no unit (us) for both times", "times in microseconds: (us)");
    if (count("(GB/s)") != 4) refuse("no unit (GB/s) for the rates", "(GB/s) for algbw and busbw");
    part_ = Part::table;
  }

  void footer(const std::vector<std::string>& words) {
    if (std::find(words.begin(), words.end(), "FAILED") != words.end()) refuse("wrong results (FAILED)", "a test whose results are right");
    if (part_ != Part::table) refuse("the end of a table without its beginning", "the header with its units before it");
    part_ = Part::after;
  }

  void row(const std::vector<std::string>& words) {
    const bool stamped = columns_.back() == "timestamp";  // a date and a time
    const std::size_t measured = columns_.size() - leading_ + (stamped ? 1 : 0);
    if (words.size() < measured + 3 || words.size() > measured + leading_) {
      refuse(std::to_string(words.size()) + " columns", "a row of " + std::to_string(leading_ + measured) + " columns, as the header has it");
    }
    const auto bytes = whole(words[0]);
    if (!bytes || *bytes < 0 || *bytes > kLargestBytes) refuse("size " + words[0], "a whole number of bytes, at most 2^60");
    const auto count = whole(words[1]);
    if (!count || *count < 0) refuse("count " + words[1], "a whole number of elements");
    if (type_.empty()) type_ = words[2];
    check_count(*bytes, *count, words[2]);
    if (words[2] != type_) refuse("type " + words[2] + " after " + type_, "one type a file");
    for (std::size_t c = 0; c + leading_ < columns_.size(); ++c) measure(columns_[leading_ + c], words[words.size() - measured + c]);
    const auto cell = [&](std::size_t c) { return words[words.size() - measured + c]; };
    if (*bytes == 0) {
      ++tests_.rows_without_bytes;
      return;
    }
    if (*bytes <= last_bytes_) {
      refuse("size " + words[0] + " after " + std::to_string(last_bytes_), "sizes in ascending order, each once");
    }
    last_bytes_ = *bytes;
    rows_.push_back({line_, *bytes, *number(cell(in_place_)), *number(cell(in_place_ + 1)), *number(cell(in_place_ + 2))});
  }

  /// Elements of the whole buffer, or of a rank's part of it.
  void check_count(std::int64_t bytes, std::int64_t count, const std::string& type) const {
    const std::optional<std::int64_t> each = bytes_of_type(type);
    const std::int64_t parts = ranks_.empty() ? options_.ranks : static_cast<std::int64_t>(ranks_.size());
    if (!each || parts == 0 || count > kLargestBytes / *each) return;
    // A part is rounded down to whole elements, or to 16 bytes of them.
    const auto near = [&](double all) { return std::abs(static_cast<double>(bytes) - all) < static_cast<double>(16 * parts); };
    const double counted = static_cast<double>(count * *each);
    if (near(counted) || near(counted * static_cast<double>(parts))) return;
    refuse(std::to_string(count) + " elements of " + type + " for " + std::to_string(bytes) + " bytes", std::to_string(bytes / *each) + " of " + std::to_string(*each) + " bytes each");
  }

  /// One cell of a row, by the name of its column.
  void measure(const std::string& column, const std::string& cell) {
    const auto value = number(cell);
    const std::string found = column + " " + cell;
    if (column == "time" && (!value || !std::isfinite(*value) || *value <= 0)) refuse(found, "a positive, finite time");
    if ((column == "algbw" || column == "busbw") && (!value || !std::isfinite(*value) || *value < 0)) refuse(found, "a finite rate, not negative");
    if (column == "#wrong") {
      if (cell == "N/A") return;  // measured with -c 0: results were not checked
      if (!value || *value != 0) refuse(found, "0 wrong results");
      tests_.checked = true;
    }
    // Older versions: the largest deviation. Whether it is too large is said at the end of the file.
    if (column == "error" && cell != "N/A" && (!value || !std::isfinite(*value) || *value < 0)) refuse(found, "a finite deviation");
  }

  struct Row {
    int line;
    std::int64_t bytes;
    double time_us;
    double algorithm_gb_per_s;
    double bus_gb_per_s;
  };

  NcclTests finish() {
    if (columns_.empty()) refuse_file("no table", "the output of nccl-tests: a header, size count type ... time, and rows");
    if (part_ == Part::before) throw InputError(place_ + ": line " + std::to_string(header_line_ + 1), "no line of units after the header", "(B) (elements) ... (us) (GB/s) (GB/s)");
    if (rows_.empty()) refuse_file("a header and no row with bytes", "at least one row of measurements");
    if (part_ == Part::table) refuse_file("an end after " + std::to_string(rows_.size()) + " rows, without '# Out of bounds values'", "the whole output of the test");
    if (tests_.collective.empty()) refuse_file("no name of a test, such as all_reduce_perf", "--collective " + nccl_tests_collectives().front() + ", or another of " + list_words(nccl_tests_collectives()));
    settle_ranks();
    if (cards_.size() == 1) tests_.card = *cards_.begin();
    if (cards_.size() > 1) {
      for (const std::string& card : cards_) tests_.card += (tests_.card.empty() ? "" : " and ") + card;
    }
    for (const Row& row : rows_) add(row);
    return std::move(tests_);
  }

  void settle_ranks() {
    const auto named = static_cast<std::int64_t>(ranks_.size());
    if (named > 0 && *ranks_.rbegin() != named - 1) {
      refuse_file(std::to_string(named) + " ranks, the last of them rank " + std::to_string(*ranks_.rbegin()), "all ranks from 0 on");
    }
    if (named > 0 && options_.ranks > 0 && named != options_.ranks) {
      refuse_file(std::to_string(named) + " ranks", std::to_string(options_.ranks) + ", as --ranks says");
    }
    tests_.ranks = named > 0 ? named : options_.ranks;
    if (tests_.ranks == 0) refuse_file("no lines '#  Rank  0 ...'", "--ranks N");
    if (tests_.ranks == 1) refuse_file("a test of one rank", "at least 2 ranks: one exchanges nothing");
  }

  void add(const Row& row) {
    line_ = row.line;
    const double rate = static_cast<double>(row.bytes) / row.time_us / 1e3;
    if (!agree(rate, row.algorithm_gb_per_s)) {
      refuse("algbw " + to_text(row.algorithm_gb_per_s) + " for " + std::to_string(row.bytes) + " bytes in " + to_text(row.time_us) + " us",
             "their quotient, " + to_text(std::round(rate * 100) / 100) + " GB/s (another unit of time?)");
    }
    const double bus = rate * bus_factor(tests_.collective, tests_.ranks);
    if (!agree(bus, row.bus_gb_per_s)) {
      refuse("busbw " + to_text(row.bus_gb_per_s), to_text(std::round(bus * 100) / 100) + ", for " + tests_.collective + " of " +
                                                       std::to_string(tests_.ranks) + " ranks (another operation, or another number of ranks?)");
    }
    Sample sample;
    sample.key.probe = Probe::collective;
    sample.key.operation = tests_.collective;
    sample.key.transport = "nccl";
    sample.key.ranks = tests_.ranks;
    sample.key.size = row.bytes;
    sample.unit = "us";
    sample.values = {row.time_us};
    sample.calls_before = warmup_calls_;
    sample.calls_a_value = calls_;
    tests_.samples.push_back(std::move(sample));
  }

  std::string place_;
  NcclTestsOptions options_;
  NcclTests tests_;
  Part part_ = Part::before;
  int line_ = 0;
  int header_line_ = 0;
  std::set<std::int64_t> ranks_;
  std::set<std::string> cards_;
  std::vector<std::string> columns_;
  std::vector<std::size_t> times_;
  std::size_t leading_ = 0;   // columns before the first time
  std::size_t in_place_ = 0;  // column of the second time, counted from the first
  std::string type_;
  std::int64_t last_bytes_ = 0;
  std::int64_t warmup_calls_ = 0;
  std::int64_t calls_ = 1;
  std::vector<Row> rows_;
};

}  // namespace

const std::vector<std::string>& nccl_tests_collectives() {
  static const std::vector<std::string> names = {"all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter"};
  return names;
}

NcclTests parse_nccl_tests(const std::string& text, const std::string& place, const NcclTestsOptions& options) {
  return Reader(place, options).read(text);
}

NcclTests load_nccl_tests(const std::string& path, const NcclTestsOptions& options) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError("--from-nccl-tests", path + ", which cannot be read", "an output of nccl-tests");
  std::string text(kLargestFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad()) throw InputError(path, "a file that cannot be read", "an output of nccl-tests");
  if (text.size() > kLargestFile) throw InputError(path, "more than 64 MiB", "an output of nccl-tests, of some kB");
  return parse_nccl_tests(text, path, options);
}

void add_nccl_tests(const NcclTests& tests, const std::string& place, Samples& samples) {
  nlohmann::json& environment = samples.environment;
  nlohmann::json& read = environment["nccl_tests"];
  std::size_t rows = 0;
  const JsonPlace known(read, place + ": environment.nccl_tests of the samples");
  for (std::size_t i = 0; i < read.size(); ++i) rows += static_cast<std::size_t>(known.at(i).at("rows").whole(0, kLargestBytes));
  if (samples.samples.size() == rows) {  // of a machine of which there is nothing else
    environment["device"] = "cuda";
    environment["count"] = std::max(environment.value("count", tests.ranks), tests.ranks);
    if (!tests.card.empty() && !environment.contains("card")) environment["card"] = tests.card;
  }
  if (!tests.card.empty() && environment.value("card", tests.card) != tests.card) {
    throw InputError(place, "collectives of " + tests.card, "of " + environment.value("card", "") + ", as the other samples");
  }
  read.push_back({{"collective", tests.collective},
                  {"ranks", tests.ranks},
                  {"card", tests.card},
                  {"column", "in-place"},
                  {"rows", tests.samples.size()},
                  {"rows_without_bytes", tests.rows_without_bytes},
                  {"results_checked", tests.checked}});
  std::sort(read.begin(), read.end());  // whatever the order of the files
  samples.samples.insert(samples.samples.end(), tests.samples.begin(), tests.samples.end());
}

}  // namespace pdl
