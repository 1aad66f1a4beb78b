#include "calibrate/fit/nccl_tests.hpp"

#include <cstdio>

#include "calibrate/fit/fit.hpp"
#include "sim/spec/error.hpp"
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
      "#                                                              out-of-place                       in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n";
  std::string units =
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         \n";
  std::vector<std::string> rows = {
      "        1024           256     float     sum      -1    11.94    0.09    0.09       0    11.17    0.09    0.09       0",
      "     1048576        262144     float     sum      -1    27.37   38.31   38.31       0    26.93   38.94   38.94       0",
      "     4194304       1048576     float     sum      -1    54.19   77.40   77.40       0    53.82   77.93   77.93       0"};
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
  const CostProfile profile = fit(samples);
  CHECK(profile.name == "nvidia-h100-80gb-hbm3-x2");
  CHECK(profile.warnings.empty());
  CHECK(profile.notes.empty());
  REQUIRE(profile.curves.size() == 1);
  CHECK(read(profile.curves[0].curve, 1048576).time_ns == 26930);
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
    CHECK_THAT(refusal(output.text()), ContainsSubstring("f.txt: line 14: found a row and what NCCL logged in one line"));
  }
}

TEST_CASE("elements that are not the bytes: refused, those of a rank's part too where they are not", "[nccl_tests]") {
  Output output;
  output.rows[1].replace(output.rows[1].find("262144"), 6, "999999");
  CHECK_THAT(refusal(output.text()), ContainsSubstring("f.txt: line 14: found 999999 elements of float for 1048576 bytes, expected 262144 of 4 bytes each"));
  output.rows[1].replace(output.rows[1].find("999999"), 6, "131072");  // the half of one of two
  CHECK(parse(output).samples.size() == 3);
}

TEST_CASE("the order of the files changes nothing, the largest group is the count", "[nccl_tests]") {
  const auto of = [](bool other_first) {
    Output larger;
    larger.ranks.replace(larger.ranks.find("NCCL version"), 0,
                         "#  Rank  2 Group  0 Pid   8756 on      node1 device  2 [0000:52:00] NVIDIA H100 80GB HBM3\n");
    for (std::string& row : larger.rows) {  // busbw of 3 ranks: 4/3
      for (const auto& [two, three] : {std::pair{"0.09    0.09", "0.09    0.12"}, {"38.31   38.31", "38.31   51.08"}, {"38.94   38.94", "38.94   51.92"},
                                       {"77.40   77.40", "77.40  103.20"}, {"77.93   77.93", "77.93  103.91"}}) {
        for (std::size_t at = row.find(two); at != std::string::npos; at = row.find(two)) row.replace(at, std::string(two).size(), three);
      }
    }
    Samples samples;
    if (other_first) add_nccl_tests(parse(larger), "l.txt", samples);
    add_nccl_tests(parse(Output()), "f.txt", samples);
    if (!other_first) add_nccl_tests(parse(larger), "l.txt", samples);
    return fit(samples);
  };
  CHECK(to_json(of(true)).dump() == to_json(of(false)).dump());
  CHECK(of(true).host_description.count == 3);
}

TEST_CASE("older forms: no name of the test, no root, a column error", "[nccl_tests]") {
  Output output;
  output.start = "";
  output.settings = "# nThread 1 nGpus 2 minBytes 1024 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 \n#\n";
  output.end = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 38.7\n#\n";
  output.header = "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n";
  for (std::string& row : output.rows) {
    row.erase(row.find("      -1"), 8);
    row.replace(row.size() - 1, 1, "1e-07");
  }
  CHECK_THAT(refusal(output.text()), ContainsSubstring("f.txt: found no name of a test") && ContainsSubstring("--collective"));
  CHECK(parse(output, {"all_reduce", 0}).samples.size() == 3);
  const std::string with_command = "$ mpirun -n 2 ./build/all_reduce_perf -b 1K -e 4M -f 4\n" + output.text();
  CHECK(parse_nccl_tests(with_command, "f.txt").collective == "all_reduce");
}

TEST_CASE("the bytes and rates of each collective, by the rules of nccl-tests", "[nccl_tests]") {
  for (const auto& [collective, factor] :
       {std::pair{"all_reduce", 1.75}, {"all_gather", 0.875}, {"reduce_scatter", 0.875}, {"broadcast", 1.0}, {"reduce", 1.0}}) {
    Output output;
    output.start = std::string("# Collective test starting: ") + collective + "_perf\n";
    output.end = "# Out of bounds values : 0 OK\n";
    output.ranks = "";
    output.rows.clear();
    for (const double time_us : {100.0, 200.0}) {
      char row[200];
      const double rate = 100 * time_us * 1000 / time_us / 1e3;
      std::snprintf(row, sizeof row, "%ld %ld float sum -1 %.2f %.2f %.2f 0 %.2f %.2f %.2f 0", std::lround(100 * time_us * 1000), std::lround(25 * time_us * 1000), time_us, 100.0,
                    100 * factor, time_us, rate, 100 * factor);
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
           {with([](Output& o) { o.rows[1] = "Segmentation fault"; }), "line 14: found 2 columns"},
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
           {with([](Output& o) { o.start = "# Collective test starting: alltoall_perf\n"; }), "alltoall_perf"},
           {with([](Output& o) { o.start += "# Collective test starting: reduce_perf\n"; }), "found reduce_perf"},
           {with([](Output& o) { o.header.replace(o.header.find("   time"), 7, "cputime"); }), "cputime"},
           {with([](Output& o) { o.ranks.replace(o.ranks.find("Rank  1"), 7, "Rank  0"); }), "rank 0 a second time"},
           {with([](Output& o) { o.ranks.replace(o.ranks.find("Rank  1"), 7, "Rank  2"); }), "2 ranks, the last of them rank 2"},
           {Output().text() + Output().text(), "one test a file"}}) {
    INFO(named);
    CHECK_THAT(refusal(text), ContainsSubstring("f.txt") && ContainsSubstring(named));
  }
  CHECK_THAT(refusal(Output().text(), {"broadcast", 0}), ContainsSubstring("as --collective says"));
  CHECK_THAT(refusal(Output().text(), {"", 4}), ContainsSubstring("as --ranks says"));
}

TEST_CASE("a file that is not there, or is no file", "[nccl_tests]") {
  CHECK_THROWS_AS(load_nccl_tests("none.txt"), InputError);
  CHECK_THROWS_AS(load_nccl_tests("/"), InputError);
}

}  // namespace
}  // namespace pdl
