#include "sim/study/shared_sweep.hpp"

#include <future>

#include "sim/io/error.hpp"
#include "sim/study/sweep.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

const std::vector<SettingValue> kGiven = {{"gpus", "1,2,4", "--gpus"},
                                          {"schedule", "gpipe,1f1b", "--schedule"},
                                          {"microbatches", "2:16", "--microbatches"},
                                          {"tf", "1", "--tf"},
                                          {"tb", "2", "--tb"}};

Ranks rank_of(std::int64_t rank, std::int64_t size, std::int64_t port) {
  return {rank, size, size, "127.0.0.1", port, "a test"};
}

SweepOptions with_ranks(const Ranks& ranks) {
  SweepOptions options;
  options.ranks = ranks;
  return options;
}

std::string alone(const CostProfile* profile = nullptr) {
  return sweep_json(run_sweep(kGiven, profile, {})).dump();
}

/// A rank that says who it is, takes rows and goes.
void come_and_go(const Ranks& ranks, const SweepIdentity& identity) {
  work_for_sweep(ranks, identity, 1, [](const std::vector<std::size_t>&) -> std::vector<std::string> {
    throw CannotRun("this rank ends here");
  });
}

}  // namespace

TEST_CASE("ranks share a sweep: the same bytes as one process", "[shared_sweep]") {
  for (const std::int64_t size : {2, 4}) {
    const std::int64_t port = free_port();
    std::vector<std::future<void>> others;
    for (std::int64_t rank = 1; rank < size; ++rank) {
      others.push_back(std::async(std::launch::async, [=] {
        SweepOptions options = with_ranks(rank_of(rank, size, port));
        options.threads = rank;  // each as many as it likes
        join_sweep(kGiven, nullptr, options);
      }));
    }
    const Sweep sweep = run_sweep(kGiven, nullptr, with_ranks(rank_of(0, size, port)));
    for (std::future<void>& other : others) other.get();
    CHECK(sweep_json(sweep).dump() == alone());
  }
}

TEST_CASE("a rank that ends before its rows are there ends the sweep", "[shared_sweep]") {
  const Ranks first = rank_of(0, 2, free_port()), second = rank_of(1, 2, first.port);
  const SweepIdentity identity{"a sweep", "costs", 100};
  std::vector<std::size_t> rows(100);
  RowQueue queue(rows);
  SharedSweep shared(first, identity, queue, [](const std::string&) {});
  CHECK_THROWS_WITH(come_and_go(second, identity), "this rank ends here");
  CHECK_THROWS_WITH(shared.finish(), "rank 1 has ended before its rows were predicted");
  CHECK(queue.take(1).empty());
}

TEST_CASE("a rank that does not come is waited for so long", "[shared_sweep]") {
  const Ranks first = rank_of(0, 3, free_port());
  RowQueue queue({});
  SharedSweep shared(first, {"a sweep", "costs", 1}, queue, [](const std::string&) {}, 0.2);
  CHECK_THROWS_WITH(shared.finish(), ContainsSubstring("1 of 3 ranks have come to 127.0.0.1:"));
  CHECK_THROWS_WITH(work_for_sweep(rank_of(1, 3, free_port()), {}, 1, {}, 0.1),
                    ContainsSubstring("no rank 0 at 127.0.0.1:") && ContainsSubstring("MASTER_ADDR"));
}

TEST_CASE("a rank without rank 0 ends", "[shared_sweep]") {
  const Ranks first = rank_of(0, 2, free_port()), second = rank_of(1, 2, first.port);
  const SweepIdentity identity{"a sweep", "costs", 1};
  std::promise<void> begun, stopped;
  std::future<void> other;
  {
    RowQueue queue({0});
    const SharedSweep shared(first, identity, queue, [](const std::string&) {});
    other = std::async(std::launch::async, [&] {
      work_for_sweep(second, identity, 1, [&](const std::vector<std::size_t>&) {
        begun.set_value();
        stopped.get_future().wait();
        return std::vector<std::string>{"a record"};
      });
    });
    begun.get_future().wait();
  }
  stopped.set_value();
  CHECK_THROWS_AS(other.get(), CannotRun);
}

TEST_CASE("ranks of another sweep or other costs are refused", "[shared_sweep]") {
  for (const SweepIdentity& other : {SweepIdentity{"another", "costs", 1}, SweepIdentity{"a sweep", "profile b", 1}}) {
    const Ranks first = rank_of(0, 2, free_port()), second = rank_of(1, 2, first.port);
    RowQueue queue({});
    SharedSweep shared(first, {"a sweep", "costs", 1}, queue, [](const std::string&) {});
    CHECK_THROWS_WITH(work_for_sweep(second, other, 1, {}),
                      ContainsSubstring("rank 1: found ") && ContainsSubstring("what rank 0 has: a sweep, costs"));
    CHECK_THROWS_AS(shared.finish(), InputError);
  }
}

TEST_CASE("an interrupted sweep goes on with the rows in its file", "[shared_sweep]") {
  const TemporaryFolder folder;
  SweepOptions options;
  options.resume = folder / "rows";
  CHECK(sweep_json(run_sweep(kGiven, nullptr, options)).dump() == alone());
  std::ifstream file(options.resume);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  REQUIRE(lines.size() == 1 + run_sweep(kGiven, nullptr, {}).rows.size());

  // The first rows and a part of the next one, as a process that was killed leaves them.
  std::string text;
  for (std::size_t i = 0; i < 10; ++i) text += lines[i] + "\n";
  folder.write("rows", text + lines[10].substr(0, 40));
  std::size_t first_done = 0;
  options.progress = [&](std::size_t done, std::size_t) { first_done = first_done == 0 ? done : first_done; };
  CHECK(sweep_json(run_sweep(kGiven, nullptr, options)).dump() == alone());
  CHECK(first_done == 10);

  CHECK_THROWS_WITH(run_sweep({kGiven.begin() + 1, kGiven.end()}, nullptr, options),
                    ContainsSubstring("rows: found rows of the sweep gpus 1,2,4"));
  folder.write("rows", "name,time\n");
  CHECK_THROWS_AS(run_sweep(kGiven, nullptr, options), InputError);
  folder.write("rows", "no line");
  CHECK_THROWS_AS(run_sweep(kGiven, nullptr, options), InputError);
  CHECK(std::string(std::istreambuf_iterator<char>(std::ifstream(options.resume).rdbuf()), {}) == "no line");
}

TEST_CASE("rows by another profile are not gone on with", "[shared_sweep]") {
  const TemporaryFolder folder;
  const std::vector<SettingValue> given = {{"depth", "4", "--depth"}, {"dim", "8,16", "--dim"}};
  CostProfile profile = tiny_profile();
  SweepOptions options;
  options.resume = folder / "rows";
  run_sweep(given, &profile, options);
  profile.curves.front().curve.points.front().time_ns += 1;
  CHECK_THROWS_WITH(run_sweep(given, &profile, options), ContainsSubstring("found rows predicted by profile "));
}
