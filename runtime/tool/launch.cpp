#include "runtime/tool/launch.hpp"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <thread>

#include "runtime/comm/peer_lost.hpp"
#include "runtime/comm/rendezvous.hpp"
#include "runtime/comm/waiting.hpp"
#include "sim/io/error.hpp"

namespace pdl {
namespace {

constexpr const char* kLauncher = "PDL_WATCHED";  // in the environment of a worker: the process that started it
// When a worker ends badly, others may end in its wake before this process looks: wait for them, to find the first
// cause.
constexpr std::chrono::milliseconds kWake{500};

/// The environment of this process with some variables set.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& values) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!values.contains(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : values) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

class Workers {
 public:
  Workers(int count, int port, const std::vector<std::string>& arguments) {
    for (int rank = 0; rank < count; ++rank) {
      try {
        start(rank, count, port, arguments);
      } catch (...) {
        kill_all();
        throw;
      }
    }
  }

  ~Workers() { kill_all(); }

  /// The exit code of the run.
  int wait() {
    while (!running_.empty()) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WUNTRACED | WCONTINUED);
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0) throw std::runtime_error(std::string("waitpid: ") + std::strerror(errno));
      if (!running_.contains(pid)) continue;
      if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
        stopped(pid, WIFSTOPPED(status));
        continue;
      }
      ended(pid, status);
      if (status != 0) return after_failure();
    }
    return kExitFine;
  }

 private:
  struct End {
    int rank;
    int status;
  };

  void start(int rank, int count, int port, const std::vector<std::string>& arguments) {
    std::vector<std::string> words{"pdl-run"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> environment = environment_with({{"RANK", std::to_string(rank)},
                                                             {"WORLD_SIZE", std::to_string(count)},
                                                             {"LOCAL_RANK", std::to_string(rank)},
                                                             {"MASTER_ADDR", "127.0.0.1"},
                                                             {"MASTER_PORT", std::to_string(port)},
                                                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                             {kLauncher, std::to_string(getpid())}});
    pid_t pid = 0;
    const int error =
        posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, pointers(words).data(), pointers(environment).data());
    if (error != 0) throw CannotRun("worker " + std::to_string(rank) + " cannot be started: " + std::strerror(error));
    running_[pid] = rank;
  }

  /// Whether or not others wait for it, this process ends at the limit on waiting, and its workers with it.
  void stopped(pid_t pid, bool is_stopped) {
    stopped_.erase(pid);
    if (is_stopped)
      stopped_[pid] = std::make_unique<Waiting>("worker " + std::to_string(running_[pid]) + " (process " +
                                                std::to_string(pid) + ") is stopped");
  }

  void ended(pid_t pid, int status) {
    stopped_.erase(pid);
    ends_.push_back({running_[pid], status});
    running_.erase(pid);
  }

  int after_failure() {
    const auto until = std::chrono::steady_clock::now() + kWake;
    while (!running_.empty() && std::chrono::steady_clock::now() < until) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid > 0 && running_.contains(pid)) {
        ended(pid, status);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    kill_all();
    return report(first_cause());
  }

  /// A worker killed from outside says nothing of its own and counts first; one that only lost another counts last.
  End first_cause() const {
    const auto weight = [](const End& end) {
      if (WIFSIGNALED(end.status)) return 3;
      if (WEXITSTATUS(end.status) == kExitPeerLost) return 1;
      return end.status == 0 ? 0 : 2;
    };
    End cause = ends_.front();
    for (const End& end : ends_) {
      if (weight(end) > weight(cause)) cause = end;
    }
    return cause;
  }

  static int report(const End& end) {
    const std::string worker = "pdl-run: worker " + std::to_string(end.rank);
    if (WIFSIGNALED(end.status)) {
      const int signal = WTERMSIG(end.status);
      std::cerr << worker << " has died (signal " << signal << ", " << strsignal(signal)
                << "): all workers are ended\n";
      return kExitCannotRun;
    }
    const int code = WEXITSTATUS(end.status);
    std::cerr << worker << " has failed: all workers are ended\n";
    return code == kExitPeerLost ? kExitCannotRun : code;
  }

  void kill_all() {
    for (const auto& [pid, rank] : running_) kill(pid, SIGKILL);
    for (const auto& [pid, rank] : running_) {
      while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    running_.clear();
  }

  std::map<pid_t, int> running_;
  std::map<pid_t, std::unique_ptr<Waiting>> stopped_;
  std::vector<End> ends_;
};

}  // namespace

int launch_workers(int workers, std::optional<int> port, const std::vector<std::string>& arguments) {
  int store_port = port.value_or(0);
  const auto store = start_store(store_port);
  return Workers(workers, store_port, arguments).wait();
}

void end_with_launcher() {
  const char* launcher = std::getenv(kLauncher);
  if (!launcher) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (std::to_string(getppid()) != launcher) std::_Exit(kExitCannotRun);
}

}  // namespace pdl
