// The limit on waiting ends the process: each case is a child.
#include "runtime/comm/waiting.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/comm/rank_threads.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;
using std::chrono::milliseconds;

namespace {

struct End {
  int exit_code;
  std::string err;
};

/// What becomes of a process that does this under a limit of 200 ms.
End in_a_child(const std::function<void()>& body) {
  const TemporaryFolder folder;
  const std::string file = folder / "stderr";
  const pid_t child = fork();
  if (child == 0) {
    if (!std::freopen(file.c_str(), "w", stderr)) _exit(99);
    limit_waiting("a test", milliseconds(200));
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(file)};
}

void for_ever() {
  std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

TEST_CASE("A wait without an end ends the process and says what every thread waits for", "[runtime]") {
  const End end = in_a_child([] {
    const Waiting probe("probe collectives");
    std::thread other([] {
      const Waiting waiting([] { return std::string("rank 1: the first all-reduce"); });
      for_ever();
    });
    for_ever();
  });
  CHECK(end.exit_code == 3);
  CHECK(end.err ==
        "a test: nothing has moved for 0.2 s (--wait-limit):\n  probe collectives\n  rank 1: the first all-reduce\n");
}

TEST_CASE("What gets on is not ended, however long it takes", "[runtime]") {
  const End end = in_a_child([] {
    const Waiting probe("probe");
    for (int i = 0; i < 12; ++i) {
      std::this_thread::sleep_for(milliseconds(50));
      i % 2 == 0 ? Waiting::renew() : void(Waiting("a short one"));
    }
  });
  CHECK(end.exit_code == 0);
  CHECK(end.err == "");
}

TEST_CASE("A wait that does not hang ends nothing, and is said where another does", "[runtime]") {
  const auto waits = [](bool hangs) {
    const Waiting goes_on([] { return std::string("worker 0: waits for worker 1"); }, [] { return false; });
    const Waiting other([] { return std::string("another"); }, [hangs] { return hangs; });
    std::this_thread::sleep_for(milliseconds(600));
  };
  CHECK(in_a_child([&] { waits(false); }).exit_code == 0);
  const End end = in_a_child([&] { waits(true); });
  CHECK(end.exit_code == 3);
  CHECK_THAT(end.err, ContainsSubstring("worker 1\n  another\n"));
}

TEST_CASE("Seconds in which the process is stopped do not count", "[runtime]") {
  const End end = in_a_child([] {
    const pid_t self = getpid();
    // Someone else wakes it up.
    if (fork() == 0) {
      usleep(600'000);
      kill(self, SIGCONT);
      _exit(0);
    }
    const Waiting waiting("something");
    std::this_thread::sleep_for(milliseconds(50));
    kill(self, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(50));
  });
  CHECK(end.exit_code == 0);
}

TEST_CASE("Who waits for nothing may take as long as he likes", "[runtime]") {
  const End end = in_a_child([] {
    {
      const Waiting over("over");
    }
    std::this_thread::sleep_for(milliseconds(600));
  });
  CHECK(end.exit_code == 0);
}

TEST_CASE("A rank that waits for one that has failed: the failure is said", "[runtime]") {
  const End end = in_a_child([] {
    on_rank_threads(2, "an exchange", [](int rank) {
      if (rank == 0) throw std::runtime_error("no memory");
      for_ever();
    });
  });
  CHECK(end.exit_code == 3);
  CHECK_THAT(end.err, ContainsSubstring("  rank 1: an exchange\n"));
  CHECK_THAT(end.err, ContainsSubstring("  rank 0 has failed: no memory\n"));
}

TEST_CASE("Ranks that end hand on the first failure", "[runtime]") {
  CHECK_THROWS_WITH(on_rank_threads(3, "nothing",
                                    [](int rank) {
                                      if (rank > 0) throw std::runtime_error("rank " + std::to_string(rank));
                                    }),
                    "rank 1");
  int sum = 0;
  std::mutex mutex;
  on_rank_threads(3, "nothing", [&](int rank) {
    const std::lock_guard lock(mutex);
    sum += rank;
  });
  CHECK(sum == 3);
}
