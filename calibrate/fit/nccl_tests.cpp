#include "calibrate/fit/nccl_tests.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "calibrate/fit/nccl_tests_builder.hpp"
#include "calibrate/fit/nccl_tests_json.hpp"
#include "sim/io/error.hpp"
#include "sim/io/input_file.hpp"

namespace pdl {
namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 20;
constexpr std::int64_t kLargestBytes = std::int64_t{1} << 60;

constexpr const char* kRowInLog = "a row and what NCCL logged in one line";
constexpr const char* kLineOfItsOwn = "each in a line of its own (NCCL_DEBUG=WARN logs less)";

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool has(const std::vector<std::string>& words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
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

/// The word after this one; empty: none.
std::string after(const std::vector<std::string>& words, const char* word) {
  const auto found = std::find(words.begin(), words.end(), word);
  return found == words.end() || found + 1 == words.end() ? "" : found[1];
}

/// A label before a line: of srun -l (" 0: "), of pdsh ("node1: "), of MPICH's -prepend-rank ("[0] "). Its length; 0:
/// none.
std::size_t label_length(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return 0;
  const std::size_t end = line.find_first_of(" \t", begin);
  const std::string word = line.substr(begin, end == std::string::npos ? end : end - begin);
  const auto of = [&](const char* letters) {
    return word.size() > 1 && word.find_first_not_of(letters) == word.size() - 1;
  };
  const bool process = (of("0123456789") && word.back() == ':') ||
                       (word.front() == '[' && word.back() == ']' && whole(word.substr(1, word.size() - 2)));
  if (process) return end == std::string::npos ? line.size() : end;
  if (word.back() != ':' || end == std::string::npos || word.find_first_of("#\"/") != std::string::npos) return 0;
  const std::size_t rest = line.find_first_not_of(" \t", end);
  return rest != std::string::npos && (line[rest] == '#' || (line[rest] >= '0' && line[rest] <= '9')) ? end : 0;
}

/// A line without what programs that start others put before it. Nothing: it is of a standard error.
std::optional<std::string> without_tag(const std::string& line) {
  constexpr std::size_t kLongestTag =
      100;  // "[1,0]<stdout>:" of mpirun --tag-output, a date before it with --timestamp-output
  const std::size_t table = line.substr(0, kLongestTag).find("<stdout>:");
  if (table != std::string::npos) return line.substr(table + 9);
  if (line.substr(0, kLongestTag).find("<stderr>:") != std::string::npos) return std::nullopt;
  return line.substr(label_length(line));
}

/// Reads the table that nccl-tests print, line by line.
class Reader {
 public:
  Reader(const std::string& place, const NcclTestsOptions& options) : place_(place), builder_(place, options) {}

  NcclTests read(const std::string& text) {
    if (text.find('\0') != std::string::npos) refuse_file("a file that is not text", "the output of nccl-tests");
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      ++line_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (const auto content = without_tag(line)) take(*content);
    }
    return finish();
  }

 private:
  enum class Part { before, rows, after };

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
    for (const std::string& word : words) builder_.name_test(here(), word);
    if (words[0].starts_with('#')) return comment(line, words);
    const bool like_a_row = words.size() > 4 && whole(words[0]) && whole(words[1]) && !number(words[2]);
    if (part_ != Part::rows && like_a_row)
      refuse("a row of measurements outside the table",
             "it after the header with its units, '(us)', and before 'Out of bounds values'");
    if (part_ != Part::rows) return;
    if (number(words[0]) || (words.size() > 2 && bytes_of_type(words[2]))) return row(words);
    other(line, words);
  }

  /// What NCCL, MPI and others write in between: passed over, unless it is the end of the test, or another process
  /// wrote it into a line with a row.
  void other(const std::string& line, const std::vector<std::string>& words) const {
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
      if (whole(words[i]) && whole(words[i + 1]) && bytes_of_type(words[i + 2])) {
        refuse(kRowInLog, kLineOfItsOwn);
      }
    }
    for (const char* end : {"Segmentation fault", "Test failure", "Test NCCL failure", "Test CUDA failure", "Killed",
                            "Aborted", "Bus error"}) {
      if (line.find(end) != std::string::npos) refuse(line, "a test that ended without an error");
    }
  }

  void comment(const std::string& line, const std::vector<std::string>& words) {
    if (words.size() > 2 && (words[1] == "Rank" || words[0] == "#Rank")) return rank(line, words);
    if (has(words, "nThread") && has(words, "iters:")) return settings(words);
    if (line.find("Blocking Enabled") != std::string::npos) return builder_.blocked();
    if (has(words, "bytes") && has(words, "N") && has(words, "time")) {
      refuse("the columns bytes and N, of nccl-tests 1, whose times are in milliseconds",
             "the output of nccl-tests 2.0 or later");
    }
    if (has(words, "size") && has(words, "count") && (has(words, "time") || has(words, "cputime")))
      return header(words);
    if (has(words, "(B)") && has(words, "(elements)")) return units(words);
    if (line.find("Out of bounds values") != std::string::npos) return footer(words);
    if (words.size() > 1 && words[1] == "error:") refuse(line, "a test that ended without an error");
  }

  void settings(const std::vector<std::string>& words) {
    std::int64_t warmup = 0, counted = 1;
    for (std::size_t i = 1; i + 1 < words.size(); ++i) {
      const auto value = whole(words[i + 1]);
      if (words[i] != "iters:" || !value) continue;
      if (words[i - 1] == "agg") builder_.called_in_groups(*value);
      if (words[i - 1] == "warmup")
        warmup = *value;
      else
        counted *= std::max<std::int64_t>(*value, 1);  // iters and agg iters
    }
    builder_.calls(warmup, counted);
    builder_.launched_by_graph(whole(after(words, "graph:")).value_or(0));
  }

  void rank(const std::string& line, const std::vector<std::string>& words) {
    const auto value = whole(words[words[0] == "#" ? 2 : 1]);
    if (!value || *value < 0) refuse(line, "'#  Rank  0 ...'");
    if (part_ != Part::before) refuse("a rank after the header of the table", "one test a file");
    NcclTestsRank rank;
    rank.place = here();
    rank.rank = *value;
    rank.group = whole(after(words, "Group")).value_or(0);
    rank.host = after(words, "on");
    // The first brackets behind "device": a card's name may have some too, in its control characters.
    const std::size_t open = line.find('[', std::min(line.find(" device "), line.size()));
    const std::size_t close = line.find(']', std::min(open, line.size()));
    if (close != std::string::npos) {
      rank.gpu = "device " + after(words, "device") + " " + line.substr(open, close + 1 - open);
      const std::vector<std::string> card = words_of(line.substr(close + 1));
      for (const std::string& word : card) rank.card += (rank.card.empty() ? "" : " ") + word;
    }
    builder_.add_rank(rank);
  }

  void header(const std::vector<std::string>& words) {
    if (!columns_.empty()) refuse("a second header", "one test a file");
    columns_.assign(words.begin() + 1, words.end());
    const auto first = std::find_if(columns_.begin(), columns_.end(),
                                    [](const std::string& name) { return name == "time" || name == "cputime"; });
    if (*first == "cputime") refuse("cputime, the time of the host's calls (-C)", "time");
    leading_ = static_cast<std::size_t>(first - columns_.begin());
    for (std::size_t c = leading_; c < columns_.size(); ++c) {
      if (columns_[c] == "time") times_.push_back(c - leading_);
    }
    if (times_.size() != 2 || !has(columns_, "algbw") || !has(columns_, "busbw"))
      refuse("columns without time algbw busbw twice",
             "size count type redop root time algbw busbw #wrong, the last four for out-of-place and in-place");
    in_place_ = times_[1];
    if (columns_.size() - leading_ < in_place_ + 3 || columns_[leading_ + in_place_ + 1] != "algbw" ||
        columns_[leading_ + in_place_ + 2] != "busbw") {
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
    part_ = Part::rows;
  }

  void footer(const std::vector<std::string>& words) {
    if (has(words, "FAILED")) refuse("wrong results (FAILED)", "a test whose results are right");
    if (part_ != Part::rows) refuse("the end of a table without its beginning", "the header with its units before it");
    part_ = Part::after;
  }

  void row(const std::vector<std::string>& words) {
    const bool stamped = columns_.back() == "timestamp";  // a date and a time
    const std::size_t measured = columns_.size() - leading_ + (stamped ? 1 : 0);
    if (words.size() < measured + 3 || words.size() > measured + leading_) {
      if (has(words, "NCCL")) refuse(kRowInLog, kLineOfItsOwn);
      refuse(std::to_string(words.size()) + " columns",
             "a row of " + std::to_string(leading_ + measured) + " columns, as the header has it");
    }
    const auto bytes = whole(words[0]), count = whole(words[1]);
    if (!bytes || *bytes < 0 || *bytes > kLargestBytes)
      refuse("size " + words[0], "a whole number of bytes, at most 2^60");
    if (!count || *count < 0) refuse("count " + words[1], "a whole number of elements");
    for (std::size_t c = 0; c + leading_ < columns_.size(); ++c)
      measure(columns_[leading_ + c], words[words.size() - measured + c]);
    const auto cell = [&](std::size_t c) { return *number(words[words.size() - measured + c]); };
    const bool reduces = words.size() == measured + leading_ && leading_ > 3 && columns_[3] == "redop";
    builder_.add_row({here(), *bytes, *count, words[2], reduces ? words[3] : "", cell(in_place_), cell(in_place_ + 1),
                      cell(in_place_ + 2)});
  }

  /// One cell of a row, by the name of its column.
  void measure(const std::string& column, const std::string& cell) {
    const auto value = number(cell);
    const std::string found = column + " " + cell;
    if (column == "time" && (!value || !std::isfinite(*value) || *value <= 0)) refuse(found, "a positive, finite time");
    if ((column == "algbw" || column == "busbw") && (!value || !std::isfinite(*value) || *value < 0))
      refuse(found, "a finite rate, not negative");
    if (column == "#wrong") {
      if (cell == "N/A") return;  // measured with -c 0: results were not checked
      if (!value || *value != 0) refuse(found, "0 wrong results");
      builder_.results_were_checked();
    }
    // Older versions: the largest deviation. Whether it is too large is said at the end of the file.
    if (column == "error" && cell != "N/A" && (!value || !std::isfinite(*value) || *value < 0))
      refuse(found, "a finite deviation");
  }

  NcclTests finish() {
    if (columns_.empty())
      refuse_file("no table", "the output of nccl-tests: a header, size count type ... time, and rows");
    if (part_ == Part::before)
      throw InputError(place_ + ": line " + std::to_string(header_line_ + 1), "no line of units after the header",
                       "(B) (elements) ... (us) (GB/s) (GB/s)");
    if (part_ == Part::rows && builder_.rows() > 0)
      refuse_file("an end after " + std::to_string(builder_.rows()) + " rows, without '# Out of bounds values'",
                  "the whole output of the test");
    return builder_.finish();
  }

  std::string place_;
  NcclTestsBuilder builder_;
  Part part_ = Part::before;
  int line_ = 0;
  int header_line_ = 0;
  std::vector<std::string> columns_;
  std::vector<std::size_t> times_;
  std::size_t leading_ = 0;   // columns before the first time
  std::size_t in_place_ = 0;  // column of the second time, counted from the first
};

}  // namespace

const std::vector<std::string>& nccl_tests_collectives() {
  static const std::vector<std::string> names = {"all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter"};
  return names;
}

NcclTests parse_nccl_tests(const std::string& text, const std::string& place, const NcclTestsOptions& options) {
  const std::size_t begin = text.find_first_not_of("\xEF\xBB\xBF \t\r\n");  // behind a byte order mark
  if (begin != std::string::npos && text[begin] == '{') return parse_nccl_tests_report(text, place, options);
  return Reader(place, options).read(text);
}

NcclTests load_nccl_tests(const std::string& path, const NcclTestsOptions& options) {
  return parse_nccl_tests(read_input_file(path, kLargestFile, "an output of nccl-tests"), path, options);
}

}  // namespace pdl
