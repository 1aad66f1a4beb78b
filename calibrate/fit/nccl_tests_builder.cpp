#include "calibrate/fit/nccl_tests_builder.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/io/error.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kLargestBytes = std::int64_t{1} << 60;
// Rates are printed with two decimals, times above 10 s with two digits.
constexpr double kRateTolerance = 0.05;
constexpr double kRateRounding = 0.011;

/// Bus bandwidth over algorithm bandwidth (nccl-tests' doc/PERFORMANCE.md).
double bus_factor(const std::string& collective, std::int64_t ranks) {
  const double n = static_cast<double>(ranks);
  if (collective == "all_reduce") return 2 * (n - 1) / n;
  if (collective == "all_gather" || collective == "reduce_scatter") return (n - 1) / n;
  return 1;
}

bool agree(double a, double b) {
  return std::abs(a - b) <= kRateTolerance * std::max(a, b) + kRateRounding;
}

std::string gb_per_s(double value) {
  return to_text(std::round(value * 100) / 100);
}

/// Tests of nccl-tests that are not of nccl_tests_collectives().
const std::vector<std::string>& other_tests() {
  static const std::vector<std::string> names = {"alltoall", "alltoallv", "gather", "hypercube", "scatter", "sendrecv"};
  return names;
}

bool is_one_of(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// "all_reduce" of "/opt/all_reduce_perf_mpi"; empty: no program of nccl-tests.
std::string test_of(std::string word) {
  word.erase(0, word.find_last_of("/\\") == std::string::npos ? 0 : word.find_last_of("/\\") + 1);
  for (const std::string end : {".exe", "_mpi", "_perf"}) {
    if (word.ends_with(end))
      word.erase(word.size() - end.size());
    else if (end == "_perf")
      return "";
  }
  return is_one_of(word, nccl_tests_collectives()) || is_one_of(word, other_tests()) ? word : "";
}

}  // namespace

std::optional<std::int64_t> bytes_of_type(const std::string& type) {
  static const std::map<std::string, std::int64_t> bytes = {
      {"int8", 1}, {"uint8", 1},    {"char", 1},    {"f8e4m3", 1}, {"f8e5m2", 1},
      {"half", 2}, {"bfloat16", 2}, {"float16", 2}, {"int32", 4},  {"uint32", 4},
      {"int", 4},  {"float", 4},    {"int64", 8},   {"uint64", 8}, {"double", 8}};
  const auto found = bytes.find(type);
  return found == bytes.end() ? std::nullopt : std::optional(found->second);
}

NcclTestsBuilder::NcclTestsBuilder(std::string place, const NcclTestsOptions& options)
    : place_(std::move(place)), options_(options) {
  tests_.collective = options.collective;
}

void NcclTestsBuilder::name_test(const std::string& place, const std::string& word) {
  const std::string name = test_of(word);
  if (name.empty()) return;
  if (!is_one_of(name, nccl_tests_collectives())) {
    throw InputError(place, word + ", which no step that is predicted calls",
                     "a test of " + list_words(nccl_tests_collectives()) + ", with _perf");
  }
  if (!tests_.collective.empty() && tests_.collective != name) {
    throw InputError(place, word,
                     tests_.collective + "_perf, as " +
                         (options_.collective == tests_.collective ? "--collective says" : "a line before says") +
                         " (one test a file)");
  }
  tests_.collective = name;
}

void NcclTestsBuilder::add_rank(const NcclTestsRank& rank) {
  const std::string number = std::to_string(rank.rank);
  if (!ranks_.emplace(rank.rank, rank).second) {
    throw InputError(rank.place, "rank " + number + " a second time",
                     "each rank once (several processes that each say rank 0: nccl-tests was built without MPI, and "
                     "each measured alone)");
  }
  if (rank.host.empty() || rank.gpu.empty()) return;
  const auto [other, is_new] = gpus_.emplace(rank.host + " " + rank.gpu, rank.rank);
  if (is_new) return;
  throw InputError(
      rank.place,
      "ranks " + std::to_string(other->second) + " and " + number + " on one GPU, " + rank.gpu + " of " + rank.host,
      "a GPU for every rank: no link between GPUs was measured (hosts that have the same name: give each its own)");
}

void NcclTestsBuilder::add_row(const NcclTestsRow& row) {
  if (!rows_.empty() && row.type != rows_.front().type) {
    throw InputError(row.place, "type " + row.type + " after " + rows_.front().type, "one type a file");
  }
  if (!rows_.empty() && row.redop != rows_.front().redop) {
    throw InputError(row.place, "redop " + row.redop + " after " + rows_.front().redop, "one operation a file");
  }
  if (row.bytes == 0) {
    ++tests_.rows_without_bytes;
    return;
  }
  const bool next_cycle = !rows_.empty() && row.bytes == rows_.front().bytes;
  if (!rows_.empty() && row.bytes <= rows_.back().bytes && !next_cycle) {
    throw InputError(row.place, "size " + std::to_string(row.bytes) + " after " + std::to_string(rows_.back().bytes),
                     "sizes in ascending order, each once, or once a cycle (-N)");
  }
  rows_.push_back(row);
}

void NcclTestsBuilder::launched_by_graph(std::int64_t launches) {
  if (launches > 0) {
    doubt("measured in CUDA graphs (-G " + std::to_string(launches) +
          "), which launch it without the host: a call as training makes it takes longer");
  }
}

void NcclTestsBuilder::blocked() {
  doubt(
      "measured in blocking mode (-z), in which the host waits after every call: its launch and its wait are in the "
      "times, a call as training makes it takes less");
}

void NcclTestsBuilder::called_in_groups(std::int64_t calls) {
  if (calls > 1) {
    doubt("measured with " + std::to_string(calls) + " calls in a group (-m " + std::to_string(calls) +
          "), which share one launch: a call as training makes it takes longer");
  }
}

void NcclTestsBuilder::calls(std::int64_t warmup, std::int64_t counted) {
  warmup_calls_ = warmup;
  calls_ = std::max<std::int64_t>(counted, 1);
}

NcclTests NcclTestsBuilder::finish() {
  if (rows_.empty()) throw InputError(place_, "a header and no row with bytes", "at least one row of measurements");
  if (tests_.collective.empty()) {
    throw InputError(
        place_, "no name of a test, such as all_reduce_perf",
        "--collective " + nccl_tests_collectives().front() + ", or another of " + list_words(nccl_tests_collectives()));
  }
  settle_ranks();
  settle_cards();
  std::map<std::int64_t, Sample> by_bytes;
  for (const NcclTestsRow& row : rows_) {
    check_count(row);
    check_rates(row);
    Sample& sample = by_bytes[row.bytes];
    sample.key.probe = Probe::collective;
    sample.key.operation = tests_.collective;
    sample.key.transport = "nccl";
    sample.key.ranks = tests_.ranks;
    sample.key.hosts = tests_.hosts;
    sample.key.size = row.bytes;
    sample.unit = "us";
    sample.values.push_back(row.time_us);
    sample.calls_before = warmup_calls_;
    sample.calls_a_value = calls_;
  }
  for (auto& [bytes, sample] : by_bytes) {
    const auto [least, largest] = std::minmax_element(sample.values.begin(), sample.values.end());
    if (*largest > kNcclTestsAgree * *least) {
      doubt("cycles of one file (-N) differ: " + std::to_string(bytes) + " bytes took " + to_text(*least) + " us and " +
            to_text(*largest) + " us");
    }
    tests_.samples.push_back(std::move(sample));
  }
  return std::move(tests_);
}

void NcclTestsBuilder::settle_ranks() {
  const auto named = static_cast<std::int64_t>(ranks_.size());
  if (named > 0 && ranks_.rbegin()->first != named - 1) {
    throw InputError(place_,
                     std::to_string(named) + " ranks, the last of them rank " + std::to_string(ranks_.rbegin()->first),
                     "all ranks from 0 on");
  }
  if (named > 0) settle_group(ranks_.begin()->second.group);
  if (named > 0 && options_.ranks > 0 && tests_.ranks != options_.ranks) {
    throw InputError(place_, std::to_string(tests_.ranks) + " ranks" + (tests_.ranks < named ? " a group" : ""),
                     std::to_string(options_.ranks) + ", as --ranks says");
  }
  if (named == 0) tests_.ranks = options_.ranks;
  if (tests_.ranks == 0) throw InputError(place_, "no lines '#  Rank  0 ...'", "--ranks N");
  if (tests_.ranks == 1) throw InputError(place_, "a test of one rank", "at least 2 ranks: one exchanges nothing");
  take_hosts_of_options();
}

void NcclTestsBuilder::take_hosts_of_options() {
  if (hosts_said_ && options_.hosts > 0 && options_.hosts != tests_.hosts) {
    throw InputError(place_, "ranks on " + std::to_string(tests_.hosts) + (tests_.hosts == 1 ? " host" : " hosts"),
                     std::to_string(options_.hosts) + ", as --hosts says");
  }
  if (hosts_said_) return;
  if (options_.hosts == 0) {
    doubt("on how many hosts the ranks were is not said; taken as one (--hosts H says it)");
    return;
  }
  if (tests_.ranks % options_.hosts != 0) {
    throw InputError(
        "--hosts", std::to_string(options_.hosts) + " for the " + std::to_string(tests_.ranks) + " ranks of " + place_,
        "a divisor of the ranks: as many on every host");
  }
  tests_.hosts = options_.hosts;
}

void NcclTestsBuilder::settle_group(std::int64_t group) {
  std::map<std::int64_t, std::vector<NcclTestsRank>> groups;
  for (const auto& [number, rank] : ranks_) groups[rank.group].push_back(rank);
  const std::vector<NcclTestsRank>& own = groups[group];
  for (const auto& [number, members] : groups) {
    if (members.size() == own.size()) continue;
    throw InputError(members.front().place,
                     "a group " + std::to_string(number) + " of " + std::to_string(members.size()) +
                         " ranks beside group " + std::to_string(group) + " of " + std::to_string(own.size()),
                     "groups of as many ranks: the times are those of all groups at once (NCCL_TESTS_SPLIT)");
  }
  tests_.ranks = static_cast<std::int64_t>(own.size());
  settle_hosts(own);
  if (groups.size() > 1) {
    doubt("measured in " + std::to_string(groups.size()) + " groups of " + std::to_string(own.size()) +
          " ranks at once (NCCL_TESTS_SPLIT): each has the others beside it, on the same links and networks");
  }
}

void NcclTestsBuilder::settle_hosts(const std::vector<NcclTestsRank>& of_group) {
  const auto has_host = [](const NcclTestsRank& rank) { return !rank.host.empty(); };
  hosts_said_ = std::all_of(of_group.begin(), of_group.end(), has_host);
  if (!hosts_said_) return;
  std::map<std::string, std::int64_t> ranks_on;
  for (const NcclTestsRank& rank : of_group) ++ranks_on[rank.host];
  for (const auto& [host, ranks] : ranks_on) {
    if (ranks == ranks_on.begin()->second) continue;
    const auto& [first_host, ranks_of_first] = *ranks_on.begin();
    throw InputError(place_,
                     "hosts of different size: " + first_host + " has " + std::to_string(ranks_of_first) +
                         " of the ranks, " + host + " has " + std::to_string(ranks),
                     "as many on every host");
  }
  tests_.hosts = static_cast<std::int64_t>(ranks_on.size());
}

void NcclTestsBuilder::settle_cards() {
  std::set<std::string> cards;
  for (const auto& [number, rank] : ranks_) {
    if (!rank.card.empty()) cards.insert(printable(rank.card));  // no control characters in a profile
  }
  for (const std::string& card : cards) tests_.card += (tests_.card.empty() ? "" : " and ") + card;
}

/// Elements of the whole buffer, or of a rank's part of it.
void NcclTestsBuilder::check_count(const NcclTestsRow& row) const {
  const std::optional<std::int64_t> each = bytes_of_type(row.type);
  if (!each || row.count > kLargestBytes / *each) return;
  // A part is rounded down to whole elements, or to 16 bytes of them.
  const auto near = [&](double all) {
    return std::abs(static_cast<double>(row.bytes) - all) < static_cast<double>(16 * tests_.ranks);
  };
  const double counted = static_cast<double>(row.count * *each);
  if (near(counted) || near(counted * static_cast<double>(tests_.ranks))) return;
  throw InputError(
      row.place,
      std::to_string(row.count) + " elements of " + row.type + " for " + std::to_string(row.bytes) + " bytes",
      std::to_string(row.bytes / *each) + " of " + std::to_string(*each) + " bytes each");
}

void NcclTestsBuilder::check_rates(const NcclTestsRow& row) const {
  const double rate = static_cast<double>(row.bytes) / row.time_us / 1e3;
  const double bus = rate * bus_factor(tests_.collective, tests_.ranks);
  // Before 2.1 all_gather and reduce_scatter counted what a rank gets from the others, as both rates (commit ec1b5e2).
  const bool by_part = tests_.collective == "all_gather" || tests_.collective == "reduce_scatter";
  if (by_part && agree(bus, row.algorithm_gb_per_s) && agree(bus, row.bus_gb_per_s)) return;
  if (!agree(rate, row.algorithm_gb_per_s)) {
    const bool other = !by_part && agree(row.algorithm_gb_per_s, row.bus_gb_per_s) && row.algorithm_gb_per_s < rate &&
                       row.algorithm_gb_per_s > rate / 2.1;
    throw InputError(row.place,
                     "algbw " + to_text(row.algorithm_gb_per_s) + " for " + std::to_string(row.bytes) + " bytes in " +
                         to_text(row.time_us) + " us",
                     "their quotient, " + gb_per_s(rate) + " GB/s (" +
                         (other ? "another operation" : "another unit of time") + "?)");
  }
  if (!agree(bus, row.bus_gb_per_s)) {
    throw InputError(row.place, "busbw " + to_text(row.bus_gb_per_s),
                     gb_per_s(bus) + ", for " + tests_.collective + " of " + std::to_string(tests_.ranks) +
                         " ranks (another operation, or another number of ranks?)");
  }
}

}  // namespace pdl
