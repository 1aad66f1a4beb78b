#include "calibrate/fit/nccl_tests.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>

#include "calibrate/fit/fit.hpp"
#include "sim/io/error.hpp"
#include "tests/calibrate/fit/sample_builder.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

/// What all_reduce_perf of nccl-tests 2.17 prints on one host, as src/util.cu formats it.
struct Output {
  std::string start =
      "# nccl-tests version 2.17.1 nccl-headers=22809 nccl-library=22809\n"
      "# Collective test starting: all_reduce_perf\n";
  std::string settings =
      "# nThread 1 nGpus 2 minBytes 1024 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
      "validation: 1 graph: 0 unalign: 0\n#\n";
  std::string ranks =
      "# Using devices\n"
      "#  Rank  0 Group  0 Pid   8756 on      node1 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
      "#  Rank  1 Group  0 Pid   8756 on      node1 device  1 [0000:43:00] NVIDIA H100 80GB HBM3\n"
      "NCCL version 2.28.9+cuda13.0\n#\n";
  std::string header =
      "#                                                              out-of-place                       in-place      "
      "    \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  "
      "#wrong \n";
  std::string units =
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)  "
      "       \n";
  std::vector<std::string> rows = {
      "        1024           256     float     sum      -1    11.94    0.09    0.09       0    11.17    0.09    0.09  "
      "     0",
      "     1048576        262144     float     sum      -1    27.37   38.31   38.31       0    26.93   38.94   38.94  "
      "     0",
      "     4194304       1048576     float     sum      -1    54.19   77.40   77.40       0    53.82   77.93   77.93  "
      "     0"};
  std::string end =
      "# Out of bounds values : 0 OK\n"
      "# Avg bus bandwidth    : 38.7 \n#\n"
      "# Collective test concluded: all_reduce_perf\n\n";

  std::string text() const {
    std::string all = start + settings + ranks + header + units;
    for (const std::string& row : rows) all += row + "\n";
    return all + end;
  }
};

NcclTests parse(const Output& output, const NcclTestsOptions& options = {}) {
  return parse_nccl_tests(output.text(), "f.txt", options);
}

std::string refusal(const std::string& text, const NcclTestsOptions& options = {}) {
  try {
    parse_nccl_tests(text, "f.txt", options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

TEST_CASE("an output of nccl-tests is samples of its collective, in-place times", "[nccl_tests]") {
  const NcclTests tests = parse(Output());
  CHECK(tests.collective == "all_reduce");
  CHECK(tests.ranks == 2);
  CHECK(tests.card == "NVIDIA H100 80GB HBM3");
  CHECK(tests.checked);
  REQUIRE(tests.samples.size() == 3);
  const Sample& sample = tests.samples[1];
  CHECK(describe(sample.key) == "collective all_reduce nccl of 2, bytes 1048576");
  CHECK(sample.values == std::vector<double>{26.93});
  CHECK(sample.unit == "us");
  CHECK(sample.calls_before == 5);
  CHECK(sample.calls_a_value == 20);
}

TEST_CASE("alone a profile of collectives, warmed and averaged, so without doubts", "[nccl_tests]") {
  Samples samples;
  add_nccl_tests(parse(Output()), "f.txt", samples);
  const CostProfile profile = fit_profile(samples);
  CHECK(profile.name == "nvidia-h100-80gb-hbm3-x2");
  CHECK(profile.warnings.empty());
  CHECK(profile.notes.empty());
  REQUIRE(profile.curves.size() == 1);
  CHECK(read_curve(profile.curves[0].curve, 1048576).time_ns == 26930);
}

TEST_CASE("added to samples of the same card, refused beside another", "[nccl_tests]") {
  SampleBuilder b;
  b.samples.environment = {{"device", "cuda"}, {"card", "NVIDIA H100 80GB HBM3"}, {"count", 4}};
  b.transfer(1024, {2, 2});
  add_nccl_tests(parse(Output()), "f.txt", b.samples);
  CHECK(b.samples.samples.size() == 4);
  CHECK(b.samples.environment["count"] == 4);
  CHECK(b.samples.environment["nccl_tests"][0]["ranks"] == 2);
  b.samples.environment["card"] = "NVIDIA H200";
  CHECK_THROWS_WITH(add_nccl_tests(parse(Output()), "f.txt", b.samples), ContainsSubstring("NVIDIA H200"));
}

TEST_CASE("mpirun's tags, NCCL's log, unchecked results, rows of 0 bytes: read as they are meant", "[nccl_tests]") {
  Output output;
  output.rows.insert(output.rows.begin() + 1, "node1:8756:8760 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P");
  for (const std::string& zero : {output.rows[0], output.rows[0]}) {
    std::string row = zero;
    row.replace(0, 27, "           0             0 ");
    output.rows.insert(output.rows.begin(), row);
  }
  for (std::string& row : output.rows) {
    if (row.ends_with("  0")) row.replace(row.size() - 3, 3, "N/A");
  }
  std::string tagged;
  std::istringstream lines(output.text());
  for (std::string line; std::getline(lines, line);) tagged += "[1,0]<stdout>:" + line + "\r\n";
  const NcclTests tests = parse_nccl_tests(tagged, "f.txt");
  CHECK(tests.samples.size() == 3);
  CHECK(tests.rows_without_bytes == 2);
}

TEST_CASE("srun's tags, before every line", "[nccl_tests]") {
  std::string tagged;
  std::istringstream lines(Output().text());
  for (std::string line; std::getline(lines, line);) tagged += "0: " + line + "\n";
  CHECK(parse_nccl_tests(tagged, "f.txt").samples.size() == 3);
}

TEST_CASE("a row and a log in one line: refused, before and behind, a log by itself is passed over", "[nccl_tests]") {
  const std::string log = "node1:8756:8760 [0] NCCL INFO comm 0x5581 rank 0 nranks 2";
  for (const bool before : {true, false}) {
    Output output;
    output.rows[1] = before ? log + " " + output.rows[1] : output.rows[1] + " " + log;
    CHECK_THAT(refusal(output.text()),
               ContainsSubstring("f.txt: line 14: found a row and what NCCL logged in one line"));
  }
}

TEST_CASE("elements that are not the bytes: refused, those of a rank's part too where they are not", "[nccl_tests]") {
  Output output;
  output.rows[1].replace(output.rows[1].find("262144"), 6, "999999");
  CHECK_THAT(refusal(output.text()),
             ContainsSubstring(
                 "f.txt: line 14: found 999999 elements of float for 1048576 bytes, expected 262144 of 4 bytes each"));
  output.rows[1].replace(output.rows[1].find("999999"), 6, "131072");  // the half of one of two
  CHECK(parse(output).samples.size() == 3);
}

TEST_CASE("the order of the files changes nothing, the largest group is the count", "[nccl_tests]") {
  const auto of = [](bool other_first) {
    Output larger;
    larger.ranks.replace(larger.ranks.find("NCCL version"), 0,
                         "#  Rank  2 Group  0 Pid   8756 on      node1 device  2 [0000:52:00] NVIDIA H100 80GB HBM3\n");
    for (std::string& row : larger.rows) {  // busbw of 3 ranks: 4/3
      for (const auto& [two, three] : {std::pair{"0.09    0.09", "0.09    0.12"},
                                       {"38.31   38.31", "38.31   51.08"},
                                       {"38.94   38.94", "38.94   51.92"},
                                       {"77.40   77.40", "77.40  103.20"},
                                       {"77.93   77.93", "77.93  103.91"}}) {
        for (std::size_t at = row.find(two); at != std::string::npos; at = row.find(two))
          row.replace(at, std::string(two).size(), three);
      }
    }
    Samples samples;
    if (other_first) add_nccl_tests(parse(larger), "l.txt", samples);
    add_nccl_tests(parse(Output()), "f.txt", samples);
    if (!other_first) add_nccl_tests(parse(larger), "l.txt", samples);
    return fit_profile(samples);
  };
  CHECK(to_json(of(true)).dump() == to_json(of(false)).dump());
  CHECK(of(true).host_description.count == 3);
}

TEST_CASE("outputs that contradict each other are both named, in either order, half of the time is none",
          "[nccl_tests]") {
  Output slow;  // 1 MiB in 60.00 us, not in 26.93; 4 MiB as before
  slow.rows[1] =
      "     1048576        262144     float     sum      -1    60.00   17.48   17.48       0    60.00   17.48   17.48  "
      "     0";
  const auto warnings = [&](bool slow_first) {
    Samples samples;
    if (slow_first) add_nccl_tests(parse(slow), "b.txt", samples);
    add_nccl_tests(parse(Output()), "a.txt", samples);
    add_nccl_tests(parse(Output()), "again.txt", samples);
    if (!slow_first) add_nccl_tests(parse(slow), "b.txt", samples);
    const nlohmann::json written = nlohmann::json::parse(to_json(samples).dump());
    CHECK(fit_profile(samples_from_json(written, "s.json")).warnings == fit_profile(samples).warnings);
    return fit_profile(samples).warnings;
  };
  const std::string rest = " contradict each other: 1048576 bytes took 26.93 us and 60 us (both are used)";
  const std::vector<std::string> both = {"nccl-tests, all_reduce of 2 ranks: a.txt and b.txt" + rest,
                                         "nccl-tests, all_reduce of 2 ranks: again.txt and b.txt" + rest};
  for (const bool slow_first : {true, false}) {
    const std::vector<std::string> found = warnings(slow_first);
    for (const std::string& text : both) CHECK(std::count(found.begin(), found.end(), text) == 1);
  }
  slow.rows[1] =
      "     1048576        262144     float     sum      -1    53.80   19.49   19.49       0    53.80   19.49   19.49  "
      "     0";
  for (const std::string& text : warnings(true)) CHECK_THAT(text, !ContainsSubstring("contradict"));
}

TEST_CASE("cycles of one file that contradict each other are a doubt", "[nccl_tests]") {
  Output output;
  output.rows.push_back(output.rows[0]);
  output.rows.push_back(
      "     1048576        262144     float     sum      -1    60.00   17.48   17.48       0    60.00   17.48   17.48  "
      "     0");
  CHECK(parse(output).doubts ==
        std::vector<std::string>{"cycles of one file (-N) differ: 1048576 bytes took 26.93 us and 60 us"});
}

TEST_CASE("what samples say of outputs of nccl-tests is refused with its place where it is something else",
          "[nccl_tests]") {
  Samples samples;
  add_nccl_tests(parse(Output()), "f.txt", samples);
  samples.environment["nccl_tests_doubts"] = {"a doubt"};
  samples.environment["nccl_tests"][0]["doubts"] = {"another"};
  const nlohmann::json good = to_json(samples);
  CHECK(fit_profile(samples_from_json(good, "s.json")).warnings ==
        std::vector<std::string>{"nccl-tests, all_reduce of 2 ranks: another", "a doubt"});
  for (const auto& [at, value, named] : std::vector<std::tuple<std::string, nlohmann::json, std::string>>{
           {"nccl_tests", 3, "nccl_tests: found 3"},
           {"nccl_tests", nlohmann::json::object({{"rows", 0}}), "nccl_tests: found an object"},
           {"nccl_tests/0", "x", "nccl_tests[0]: found \"x\""},
           {"nccl_tests/0/rows", -1, "nccl_tests[0].rows: found -1"},
           {"nccl_tests/0/collective", 5, "nccl_tests[0].collective: found 5"},
           {"nccl_tests/0/ranks", "x", "nccl_tests[0].ranks: found \"x\""},
           {"nccl_tests/0/doubts", "d", "nccl_tests[0].doubts: found \"d\""},
           {"nccl_tests/0/doubts/0", 1, "nccl_tests[0].doubts[0]: found 1"},
           {"nccl_tests_doubts", "d", "nccl_tests_doubts: found \"d\""},
           {"nccl_tests_doubts/0", nullptr, "nccl_tests_doubts[0]: found null"},
           {"card", 3, "card: found 3"},
           {"device", 3, "device: found 3"},
           {"count", "x", "count: found \"x\""}}) {
    INFO(at);
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer("/environment/" + at)] = value;
    CHECK_THROWS_WITH(samples_from_json(bad, "s.json"), ContainsSubstring("s.json: environment." + named));
    CHECK_THROWS_AS(samples_from_json(bad, "s.json"), InputError);
    samples.environment = bad["environment"];
    CHECK_THROWS_AS(add_nccl_tests(parse(Output()), "f.txt", samples), InputError);
    CHECK_THROWS_AS(fit_profile(samples), InputError);
  }
}

TEST_CASE("older forms: no name of the test, no root, a column error", "[nccl_tests]") {
  Output output;
  output.start = "";
  output.settings =
      "# nThread 1 nGpus 2 minBytes 1024 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 "
      "\n#\n";
  output.end = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 38.7\n#\n";
  output.header =
      "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n";
  for (std::string& row : output.rows) {
    row.erase(row.find("      -1"), 8);
    row.replace(row.size() - 1, 1, "1e-07");
  }
  CHECK_THAT(refusal(output.text()),
             ContainsSubstring("f.txt: found no name of a test") && ContainsSubstring("--collective"));
  CHECK(parse(output, {"all_reduce", 0}).samples.size() == 3);
  const std::string with_command = "$ mpirun -n 2 ./build/all_reduce_perf -b 1K -e 4M -f 4\n" + output.text();
  CHECK(parse_nccl_tests(with_command, "f.txt").collective == "all_reduce");
}

TEST_CASE("the bytes and rates of each collective, by the rules of nccl-tests", "[nccl_tests]") {
  for (const auto& [collective, factor] : {std::pair{"all_reduce", 1.75},
                                           {"all_gather", 0.875},
                                           {"reduce_scatter", 0.875},
                                           {"broadcast", 1.0},
                                           {"reduce", 1.0}}) {
    Output output;
    output.start = std::string("# Collective test starting: ") + collective + "_perf\n";
    output.end = "# Out of bounds values : 0 OK\n";
    output.ranks = "";
    output.rows.clear();
    for (const double time_us : {100.0, 200.0}) {
      char row[200];
      const double rate = 100 * time_us * 1000 / time_us / 1e3;
      std::snprintf(row, sizeof row, "%ld %ld float sum -1 %.2f %.2f %.2f 0 %.2f %.2f %.2f 0",
                    std::lround(100 * time_us * 1000), std::lround(25 * time_us * 1000), time_us, 100.0, 100 * factor,
                    time_us, rate, 100 * factor);
      output.rows.push_back(row);
    }
    INFO(collective);
    CHECK(parse(output, {"", 8}).samples[0].key.operation == collective);
    CHECK((refusal(output.text(), {"", 4}) == "not refused") == (factor == 1));  // the rates are those of 8 ranks
    CHECK_THAT(refusal(output.text()), ContainsSubstring("--ranks N"));
  }
}

TEST_CASE("what cannot be: refused with file and line", "[nccl_tests]") {
  const auto with_row = [](std::size_t i, const std::string& from, const std::string& to) {
    Output output;
    const std::size_t at = output.rows[i].rfind(from);
    REQUIRE(at != std::string::npos);
    output.rows[i].replace(at, from.size(), to);
    return output.text();
  };
  const auto with = [](auto&& change) {
    Output output;
    change(output);
    return output.text();
  };
  for (const auto& [text, named] : std::vector<std::pair<std::string, std::string>>{
           {"", "f.txt: found no table"},
           {"# only\n# comments\n", "f.txt: found no table"},
           {std::string("\0\1", 2), "not text"},
           {with([](Output& o) { o.rows.clear(); }), "a header and no row"},
           {with([](Output& o) { o.units = ""; }), "line 12: found a row of measurements outside the table"},
           {with([](Output& o) { o.units.replace(o.units.rfind("(us)"), 4, "(ms)"); }), "line 12: found no unit (us)"},
           {with([](Output& o) { o.header = ""; }), "line 10: found units before the header"},
           {with([](Output& o) { o.end = ""; }), "an end after 3 rows"},
           {with([](Output& o) { o.end = "# Out of bounds values : 8 FAILED\n"; }), "line 16: found wrong results"},
           {with([](Output& o) { o.rows[2].resize(60); }), "line 15: found"},
           {with([](Output& o) { o.rows[1] = "node1: Segmentation fault (core dumped)"; }),
            "line 14: found node1: Segmentation fault"},
           {with([](Output& o) { o.rows[1].resize(o.rows[1].size() - 12); }), "line 14: found time -1"},
           {with([](Output& o) { o.rows.push_back("[1,0]<stdout>:     8388608 "); }), "line 16: found 1 columns"},
           {with([](Output& o) { std::swap(o.rows[0], o.rows[1]); }), "line 14: found size 1024 after 1048576"},
           {with([](Output& o) { o.rows.push_back(o.rows[2]); }), "line 16: found size 4194304 after 4194304"},
           {with_row(1, "26.93", "nan"), "line 14: found time nan"},
           {with_row(1, "26.93", "inf"), "line 14: found time inf"},
           {with_row(1, "26.93", "-26.93"), "line 14: found time -26.93"},
           {with_row(1, "26.93", "0.00"), "line 14: found time 0.00"},
           {with_row(1, "27.37", "nan"), "line 14: found time nan"},
           {with_row(1, "26.93", "0.027"), "line 14: found algbw 38.94"},  // milliseconds
           {with_row(1, "      0", "     17"), "line 14: found #wrong 17"},
           {with_row(1, "1048576", "nan"), "line 14: found size nan"},
           {with_row(1, "float", "half"), "line 14: found type half"},
           {with([](Output& o) { o.start = "# Collective test starting: alltoall_perf\n"; }),
            "line 1: found alltoall_perf, which no step that is predicted calls"},
           {with([](Output& o) { o.start = "# Collective test starting: sendrecv_perf_mpi\n"; }),
            "line 1: found sendrecv_perf_mpi, which no step"},
           {with([](Output& o) {
              o.header =
                  "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw   "
                  "   res\n";
            }),
            "nccl-tests 1, whose times are in milliseconds"},
           {with([](Output& o) { o.rows[2].replace(o.rows[2].find("sum"), 3, "max"); }),
            "line 15: found redop max after sum"},
           {with([](Output& o) { o.start += "# Collective test starting: reduce_perf\n"; }), "found reduce_perf"},
           {with([](Output& o) { o.header.replace(o.header.find("   time"), 7, "cputime"); }), "cputime"},
           {with([](Output& o) { o.ranks.replace(o.ranks.find("Rank  1"), 7, "Rank  0"); }), "rank 0 a second time"},
           {with([](Output& o) { o.ranks.replace(o.ranks.find("Rank  1"), 7, "Rank  2"); }),
            "2 ranks, the last of them rank 2"},
           {Output().text() + Output().text(), "one test a file"}}) {
    INFO(named);
    CHECK_THAT(refusal(text), ContainsSubstring("f.txt") && ContainsSubstring(named));
  }
  CHECK_THAT(refusal(Output().text(), {"broadcast", 0}), ContainsSubstring("as --collective says"));
  CHECK_THAT(refusal(Output().text(), {"", 4}), ContainsSubstring("as --ranks says"));
}

TEST_CASE("a file that is not there, or is no file", "[nccl_tests]") {
  for (const auto& [path, found] :
       {std::pair{"none.txt", "no such file"}, {"/", "a folder"}, {"/dev/zero", "a device, no regular file"}}) {
    CHECK_THROWS_WITH(load_nccl_tests(path),
                      std::string(path) + ": found " + found + ", expected an output of nccl-tests");
  }
}

std::string golden(const std::string& name) {
  std::ifstream file(PDL_SOURCE_DIR "/tests/golden/" + name);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return text.str();
}

/// Eight lines of ranks, `rank` of them a host, in groups of `group`.
std::string eight_ranks(int a_host, int a_group = 8) {
  std::string lines = "# Using devices\n";
  for (int rank = 0; rank < 8; ++rank) {
    char line[200];
    std::snprintf(line, sizeof line,
                  "#  Rank %2d Group %2d Pid   %d on %10s device %2d [0000:%02x:00] NVIDIA H100 80GB HBM3\n", rank,
                  rank / a_group, 1000 + rank, ("node" + std::to_string(rank / a_host)).c_str(), rank % a_host,
                  rank % a_host);
    lines += line;
  }
  return lines;
}

/// An all-reduce of `ranks` with these lines of ranks.
Output of_ranks(const std::string& lines, int ranks) {
  Output output;
  output.ranks = lines;
  output.rows.clear();
  for (const double us : {100.0, 200.0}) {
    char row[200];
    const double bus = 10.24 * 2 * (ranks - 1) / ranks;
    std::snprintf(row, sizeof row, "%ld %ld float sum -1 %.2f 10.24 %.2f 0 %.2f 10.24 %.2f 0", std::lround(us * 10240),
                  std::lround(us * 2560), us, bus, us, bus);
    output.rows.push_back(row);
  }
  return output;
}

/// Without a row's other columns, of the profile: its name, its warnings.
CostProfile profile_of(const NcclTests& tests) {
  Samples samples;
  add_nccl_tests(tests, "f.txt", samples);
  return fit_profile(samples);
}

TEST_CASE("the hosts that the ranks were on are kept, from the text to the profile and back", "[nccl_tests]") {
  for (const auto& [a_host, hosts] : {std::pair{8, 1}, {4, 2}, {1, 8}}) {
    INFO(hosts);
    const NcclTests tests = parse(of_ranks(eight_ranks(a_host), 8));
    CHECK(tests.ranks == 8);
    CHECK(tests.hosts == hosts);
    const CostProfile profile = profile_of(tests);
    CHECK(profile.curves.at(0).key.hosts == hosts);
    CHECK(profile.warnings.empty());
    const nlohmann::json written = nlohmann::json::parse(to_json(profile).dump());
    CHECK(profile_from_json(written, "p.json").curves.at(0).key == profile.curves.at(0).key);
    CHECK(written["collectives"][0].contains("hosts") == (hosts > 1));
  }
  std::string uneven = eight_ranks(4);
  uneven.replace(uneven.rfind("node1"), 5, "node0");
  uneven.replace(uneven.rfind("device  3 [0000:03:00]"), 22, "device  4 [0000:04:00]");
  CHECK_THAT(refusal(of_ranks(uneven, 8).text()),
             ContainsSubstring("f.txt: found hosts of different size: node0 has 5 of the ranks, node1 has 3"));
}

TEST_CASE("groups in one test: the ranks and hosts of one, with a doubt, groups of different size are refused",
          "[nccl_tests]") {
  const NcclTests tests = parse(of_ranks(eight_ranks(4, 4), 4));
  CHECK(tests.ranks == 4);
  CHECK(tests.hosts == 1);
  CHECK_THAT(profile_of(tests).warnings.at(0),
             ContainsSubstring("nccl-tests, all_reduce of 4 ranks: measured in 2 groups of 4 ranks at once"));
  CHECK(parse(of_ranks(eight_ranks(2, 4), 4)).hosts == 2);
  CHECK_THAT(refusal(of_ranks(eight_ranks(4, 5), 5).text()),
             ContainsSubstring("f.txt: line 11: found a group 1 of 3 ranks beside group 0 of 5"));
  CHECK_THAT(refusal(of_ranks(eight_ranks(4, 4), 8).text()),
             ContainsSubstring("busbw"));  // rates of all eight contradict the groups
}

TEST_CASE("two ranks on one GPU: refused, the same device of other hosts is not", "[nccl_tests]") {
  CHECK_THAT(refusal(golden("R03_two_ranks_one_gpu.txt")),
             ContainsSubstring("f.txt: line 6: found ranks 0 and 1 on one GPU, device 0 [0000:00:00] of node0, "
                               "expected a GPU for every rank"));
  std::string of_two_hosts = golden("R03_two_ranks_one_gpu.txt");
  of_two_hosts.replace(of_two_hosts.rfind("node0"), 5, "node1");
  CHECK(parse_nccl_tests(of_two_hosts, "f.txt").hosts == 2);
}

TEST_CASE("CUDA graphs and blocking mode: a doubt in every prediction, none where neither was used", "[nccl_tests]") {
  for (const auto& [name, text] :
       {std::pair{"R04_cuda_graph.txt", "nccl-tests, all_reduce of 4 ranks: measured in CUDA graphs (-G 10)"},
        {"R04_blocking.txt", "nccl-tests, all_reduce of 4 ranks: measured in blocking mode (-z)"}}) {
    const NcclTests tests = parse_nccl_tests(golden(name), "f.txt");
    CHECK(tests.samples.size() == 3);
    CHECK_THAT(profile_of(tests).warnings.back(), ContainsSubstring(text));
  }
  std::string older = golden("R04_blocking.txt");
  older.replace(older.find("# Blocking"), older.find('\n', older.find("# Blocking")) - older.find("# Blocking"),
                "# Blocking Enabled: wait for completion and barrier after each collective ");
  CHECK(parse_nccl_tests(older, "f.txt").doubts.size() == 1);
  CHECK(parse_nccl_tests(golden("R12_two_cycles.txt"), "f.txt").doubts.empty());
}

TEST_CASE("calls in a group share a launch: a doubt, from the table and from the report", "[nccl_tests]") {
  const std::string doubt = "measured with 10 calls in a group (-m 10), which share one launch";
  Output grouped;
  grouped.settings.replace(grouped.settings.find("agg iters: 1 "), 13, "agg iters: 10 ");
  REQUIRE(parse(grouped).doubts.size() == 1);
  CHECK_THAT(parse(grouped).doubts[0], ContainsSubstring(doubt));
  CHECK(parse(grouped).samples[0].calls_a_value == 200);
  CHECK(parse(Output()).doubts.empty());
  std::string report = golden("R12_json_report.json");
  report.replace(report.find("\"ngpus\": 4,"), 11, R"("ngpus": 4, "aggregated_iterations": 10,)");
  CHECK_THAT(parse_nccl_tests(report, "f.txt", {"all_reduce", 0, 1}).doubts.at(0), ContainsSubstring(doubt));
}

TEST_CASE("hosts that nobody says: one, with a doubt. Those of the options must agree", "[nccl_tests]") {
  const std::string doubt = "on how many hosts the ranks were is not said; taken as one";
  Output output;
  output.ranks.clear();
  const NcclTests alone = parse(output, {"", 2});
  CHECK(alone.hosts == 1);
  REQUIRE(alone.doubts.size() == 1);
  CHECK_THAT(alone.doubts[0], ContainsSubstring(doubt));
  CHECK_THAT(profile_of(alone).warnings.back(), ContainsSubstring("nccl-tests, all_reduce of 2 ranks: " + doubt));
  const NcclTests said = parse(output, {"", 2, 2});
  CHECK(said.hosts == 2);
  CHECK(said.samples[0].key.hosts == 2);
  CHECK(said.doubts.empty());
  CHECK(parse(output, {"", 2, 1}).doubts.empty());
  CHECK(refusal(output.text(), {"", 2, 3}) ==
        "--hosts: found 3 for the 2 ranks of f.txt, expected a divisor of the ranks: as many on every host");
  CHECK(parse(Output(), {"", 0, 1}).doubts.empty());
  CHECK(refusal(Output().text(), {"", 0, 2}) == "f.txt: found ranks on 1 host, expected 2, as --hosts says");
  const std::string report = golden("R12_json_report.json");
  CHECK_THAT(parse_nccl_tests(report, "f.txt", {"all_reduce", 0}).doubts.at(0), ContainsSubstring(doubt));
  CHECK(parse_nccl_tests(report, "f.txt", {"all_reduce", 4, 2}).hosts == 2);
}

TEST_CASE("a card with control characters or brackets in its name keeps what is printable", "[nccl_tests]") {
  Output output;
  for (std::size_t at; (at = output.ranks.find("NVIDIA H100 80GB HBM3")) != std::string::npos;)
    output.ranks.replace(at, 21, "H100\x1b[31mRED\x07 [x] \xff");
  const NcclTests tests = parse(output);
  CHECK(tests.card == R"(H100\x1b[31mRED\x07 [x] \xff)");
  CHECK(profile_of(tests).host_description.card == tests.card);
}

TEST_CASE("several cycles are several values of a size", "[nccl_tests]") {
  std::string text = golden("R12_two_cycles.txt");
  text.replace(text.rfind("60.0   17.48"), 12, "62.0   16.91");
  text.replace(text.rfind("26.21"), 5, "25.37");
  const NcclTests tests = parse_nccl_tests(text, "f.txt");
  REQUIRE(tests.samples.size() == 3);
  CHECK(tests.samples[0].values == std::vector<double>{60, 62});
  CHECK(tests.samples[2].values == std::vector<double>{250, 250});
}

TEST_CASE("all_gather before 2.1: rates of the other ranks' parts", "[nccl_tests]") {
  const std::string text = golden("R07_old_all_gather.txt");
  CHECK_THAT(refusal(text), ContainsSubstring("--collective all_reduce, or another of"));
  for (const std::string collective : {"all_gather", "reduce_scatter"}) {
    const NcclTests tests = parse_nccl_tests(text, "f.txt", {collective, 0});
    REQUIRE(tests.samples.size() == 3);
    CHECK(tests.samples[2].key.size == 4194304);
    CHECK(tests.samples[2].values == std::vector<double>{117});
    CHECK(tests.card == "GeForce RTX 2080 Ti");
  }
  // Of another operation these rates are none, and it is not the unit of time.
  CHECK_THAT(refusal(text, {"all_reduce", 0}), ContainsSubstring("another operation?"));
}

TEST_CASE("names of programs: with _mpi, of a path, of Windows, words that name no test mean nothing", "[nccl_tests]") {
  for (const std::string name : {"all_reduce_perf", "all_reduce_perf_mpi", "/opt/nccl-tests/build/all_reduce_perf_mpi",
                                 "C:\\t\\all_reduce_perf.exe"}) {
    Output output;
    output.start = "# running ib_write_perf before it\n# Collective test starting: " + name + "\n";
    output.end = "# Out of bounds values : 0 OK\n";
    INFO(name);
    CHECK(parse(output).collective == "all_reduce");
  }
}

TEST_CASE(
    "labels before lines: of srun, padded, of mpirun with a date, of pdsh, of MPICH, and standard error is passed over",
    "[nccl_tests]") {
  for (const std::string label : {"0: ", "  0: ", "[1,0]<stdout>:", "[1,0]<stdout>: ",
                                  "Thu Mar  1 10:00:00 2029[1,0]<stdout>:", "node1: ", "[0] ", "[0]\t"}) {
    std::string tagged = "\xEF\xBB\xBF\n[1,3]<stderr>:     1048576        262144     float  a warning\n";
    std::istringstream lines(Output().text());
    for (std::string line; std::getline(lines, line);) tagged += label + line + "\r\n";
    INFO(label);
    const NcclTests tests = parse_nccl_tests(tagged, "f.txt");
    CHECK(tests.samples.size() == 3);
    CHECK(tests.ranks == 2);
    CHECK(tests.card == "NVIDIA H100 80GB HBM3");
  }
}

TEST_CASE("what others print between the rows is passed over, unless a row is in it", "[nccl_tests]") {
  for (const std::string between : {"--------------------------------------------------------------------------",
                                    "WARNING: No preset parameters were found for the device",
                                    "[node1:2200] 3 more processes have sent help message help-mpi-btl-openib.txt",
                                    "srun: job 17 has been allocated resources", "# a comment"}) {
    Output output;
    output.rows.insert(output.rows.begin() + 1, between);
    INFO(between);
    CHECK(parse(output).samples.size() == 3);
    output.rows[1] = "[node1:2200] " + output.rows[2];
    CHECK_THAT(refusal(output.text()),
               ContainsSubstring("f.txt: line 14: found a row and what NCCL logged in one line"));
  }
}

TEST_CASE("columns of single iterations (-I) and time stamps (-S) beside those that are read", "[nccl_tests]") {
  Output output;
  output.header =
      "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong i_min "
      "i_max i_p99 i_cv% timestamp\n";
  output.units =
      "# (B) (elements) (us) (GB/s) (GB/s) (us) (us) (us) (%) (us) (GB/s) (GB/s) (us) (us) (us) (%) %Y-%m-%d "
      "%H:%M:%S\n";
  output.rows = {
      "1048576 262144 float sum -1 27.37 38.31 38.31 0 27 28 28 1.5 26.93 38.94 38.94 0 26 28 28 1.5 2029-01-01 "
      "10:00:00"};
  const NcclTests tests = parse(output);
  REQUIRE(tests.samples.size() == 1);
  CHECK(tests.samples[0].values == std::vector<double>{26.93});
}

TEST_CASE("a JSON report is what its table is", "[nccl_tests]") {
  const std::string text = golden("R12_json_report.json");
  CHECK_THAT(refusal(text), ContainsSubstring("f.txt: found no name of a test") && ContainsSubstring("--collective"));
  const NcclTests tests = parse_nccl_tests(text, "f.txt", {"all_reduce", 0});
  CHECK(tests.ranks == 4);
  CHECK(tests.checked);
  REQUIRE(tests.samples.size() == 1);
  CHECK(tests.samples[0].values == std::vector<double>{30});
  CHECK(tests.samples[0].calls_before == 5);
  CHECK(tests.samples[0].calls_a_value == 20);
  // Two processes on two hosts, of 2 GPUs each, of which the report names the first.
  std::string full = text;
  full.replace(
      full.find("\"ngpus\": 4,"), 11,
      R"("ngpus": 2, "graph": 4, "blocking_collectives": "true", )"
      R"("devices": [{"rank": 0, "group": 0, "hostname": "a", )"
      R"("device_hex": "0000:01:00", "device_info": "NVIDIA H100"},)"
      R"({"rank": 2, "group": 0, "hostname": "b", "device_hex": "0000:01:00", "device_info": "NVIDIA H100"}],)");
  full.replace(0, 1,
               R"({"args": ["./build/all_reduce_perf_mpi", "-J", "f"], )"
               R"("out_of_bounds": {"count": 0, "okay": "true"}, "errors": [""], )");
  const NcclTests cluster = parse_nccl_tests("\n " + full, "f.txt");
  CHECK(cluster.collective == "all_reduce");
  CHECK(cluster.ranks == 4);
  CHECK(cluster.hosts == 2);
  CHECK(cluster.card == "NVIDIA H100");
  CHECK(cluster.doubts.size() == 2);
}

TEST_CASE("a JSON report that cannot be: refused with the value", "[nccl_tests]") {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = golden("R12_json_report.json");
    REQUIRE(text.find(from) != std::string::npos);
    return text.replace(text.find(from), from.size(), to);
  };
  const std::string whole = golden("R12_json_report.json");
  for (const auto& [text, named] : std::vector<std::pair<std::string, std::string>>{
           {whole.substr(0, 150), "f.txt: found a file that is not whole JSON (line "},
           {"{\"version\": 3, \"version\": 3}", "f.txt: found the key \"version\" twice in one object"},
           {with("\"time\": 30.0", "\"time\": -30.0"), "f.txt: results[0].in_place.time"},
           {with("\"time\": 30.0", "\"time\": 0"), "f.txt: results[0].in_place.time"},
           {with("\"time\": 30.0", "\"time\": 0.03"), "f.txt: results[0]: found algbw 34.95"},
           {with("\"time\"", "\"cpu_time\""), "f.txt: results[0].in_place.cpu_time"},
           {with("\"nwrong\": 0", "\"nwrong\": 3"), "f.txt: results[0].in_place.nwrong"},
           {with("\"ngpus\": 4", "\"ngpus\": 8"), "another number of ranks?"},
           {with("\"results\"", "\"result\""), "results"},
           {with("{\"version\"", "{\"args\": [\"alltoall_perf\"], \"version\""),
            "f.txt: args[0]: found alltoall_perf, which no step"},
           {with("{\"version\"", "{\"errors\": [\"unhandled system error\"], \"version\""), "f.txt: errors[0]"},
           {with("{\"version\"", "{\"out_of_bounds\": {\"count\": 2, \"okay\": \"false\"}, \"version\""),
            "f.txt: out_of_bounds"}}) {
    INFO(named);
    const bool names_it = text.find("\"args\"") != std::string::npos;
    CHECK_THAT(refusal(text, {names_it ? "" : "all_reduce", 0}), ContainsSubstring(named));
  }
}

TEST_CASE("thousands of rows", "[nccl_tests]") {
  Output output;
  output.rows.clear();
  for (long bytes = 1024; bytes < 1024 * 5000; bytes += 1024) {
    char row[200];
    std::snprintf(row, sizeof row, "%ld %ld float sum -1 %.2f 1.02 1.02 0 %.2f 1.02 1.02 0", bytes, bytes / 4,
                  static_cast<double>(bytes) / 1024, static_cast<double>(bytes) / 1024);
    output.rows.push_back(row);
  }
  CHECK(parse(output).samples.size() == 4999);
}

}  // namespace
}  // namespace pdl
