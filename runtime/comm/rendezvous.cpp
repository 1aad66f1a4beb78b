#include "runtime/comm/rendezvous.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/comm/error_message.hpp"
#include "runtime/comm/peer_lost.hpp"
#include "runtime/comm/store_meeting.hpp"
#include "runtime/comm/waiting.hpp"
#include "sim/io/error.hpp"

namespace pdl {
namespace {

using std::chrono::milliseconds;

// A worker that dies must end all within 30 s, also before the workers know each other.
constexpr milliseconds kJoinTimeout{25'000};
// Afterwards dead workers are noticed by other means, and slow ones by the limit on waiting.
constexpr milliseconds kResultTimeout{24 * 60 * 60'000};

std::optional<int> number_from(const char* name) {
  const char* text = std::getenv(name);
  if (!text) return std::nullopt;
  int value = 0;
  const std::string_view view(text);
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < 0) {
    throw InputError(std::string("environment variable ") + name, text, "a whole number from 0 on");
  }
  return value;
}

std::optional<int> first_number(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const std::optional<int> value = number_from(name)) return value;
  }
  return std::nullopt;
}

/// Several runs may use the store of one torchrun, one after another: keys carry the number of its restart.
std::string prefix() {
  const char* restart = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return std::string("pdl/") + (restart ? restart : "0");
}

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}
std::string text_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

/// The same on all processes of a host, different on every host and after every start.
std::string host_id() {
  if (const char* name = std::getenv("PDL_HOST")) return std::string("named ") + name;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

/// By a signal (SIGSTOP, ctrl-Z), or by a debugger. Source: proc(5), the state in /proc/PID/stat.
bool is_stopped(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= line.size()) return false;  // gone: others notice that
  const char state = line[name_end + 2];
  return state == 'T' || state == 't';
}

c10::intrusive_ptr<c10d::TCPStore> open_store(const std::string& address, int port, bool server) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = server;
  options.waitWorkers = false;
  options.timeout = kJoinTimeout;
  try {
    return c10::make_intrusive<c10d::TCPStore>(address, options);
  } catch (const std::exception& error) {
    const std::string reason = message_of(error);
    if (server && (reason.find("EADDRINUSE") != std::string::npos || reason.find("in use") != std::string::npos)) {
      throw InputError("--port", std::to_string(port) + ", which is in use", "a free port (left out: any free one)");
    }
    throw CannotRun("no connection to the store of the workers at " + address + ":" + std::to_string(port) + ": " +
                    reason);
  }
}

}  // namespace

std::optional<ProcessRank> process_rank(int default_port) {
  const std::optional<int> rank = first_number({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"});
  const std::optional<int> size = first_number({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"});
  if (!rank || !size) return std::nullopt;
  ProcessRank process;
  process.watched = std::getenv("PDL_WATCHED") != nullptr;
  if (*size <= 1 && !process.watched) return std::nullopt;
  process.rank = *rank;
  process.world_size = *size;
  process.local_rank = first_number({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}).value_or(*rank);
  if (const char* address = std::getenv("MASTER_ADDR")) process.address = address;
  process.port = number_from("MASTER_PORT").value_or(default_port);
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  process.store_exists = agent && std::string_view(agent) == "True";
  if (process.rank >= process.world_size) {
    throw InputError("environment variable RANK", std::to_string(process.rank),
                     "less than the number of processes, " + std::to_string(process.world_size));
  }
  return process;
}

c10::intrusive_ptr<c10d::Store> start_store(int& port) {
  const auto store = open_store("127.0.0.1", port, true);
  port = store->getPort();
  return store;
}

struct Rendezvous::Shared {
  std::atomic<int> arrived;
  std::atomic<int> round;
  std::atomic<int> leaving;
};
static_assert(std::atomic<int>::is_always_lock_free);

/// Ends this process when another worker's process ends before all are done.
struct Rendezvous::Watch {
  int stop = -1;
  std::vector<pollfd> peers;  // the last one: `stop`
  std::vector<int> ranks;
  std::thread thread;

  ~Watch() {
    if (thread.joinable()) {
      const std::uint64_t one = 1;
      if (write(stop, &one, sizeof one) == sizeof one)
        thread.join();
      else
        thread.detach();
    }
    for (const pollfd& peer : peers) close(peer.fd);
  }

  /// `all_leaving`: nobody needs the others any more.
  void start(std::function<bool()> all_leaving) {
    stop = eventfd(0, EFD_CLOEXEC);
    peers.push_back({stop, POLLIN, 0});
    thread = std::thread([this, all_leaving = std::move(all_leaving)] { run(all_leaving); });
  }

  void run(const std::function<bool()>& all_leaving) {
    while (true) {
      if (poll(peers.data(), peers.size(), -1) < 0 && errno != EINTR) return;
      if (peers.back().revents) return;
      for (std::size_t i = 0; i + 1 < peers.size(); ++i) {
        if (!peers[i].revents) continue;
        if (all_leaving()) return;
        std::fprintf(stderr, "pdl-run: worker %d has died\n", ranks[i]);
        std::fflush(stderr);
        std::_Exit(kExitCannotRun);
      }
    }
  }
};

Rendezvous::Rendezvous(const ProcessRank& process)
    : process_(process), name_("worker " + std::to_string(process.rank)) {
  const Waiting waiting(name_ + ": waits for the other workers to join");
  const bool server = process_.rank == 0 && !process_.store_exists;
  store_ = c10::make_intrusive<c10d::PrefixStore>(prefix(), open_store(process_.address, process_.port, server));
  store_->setTimeout(kJoinTimeout);
  try {
    const std::string rank = std::to_string(process_.rank);
    store_->set("host/" + rank, bytes_of(host_id()));
    store_->set("process/" + rank, bytes_of(std::to_string(getpid())));
    std::vector<std::string> host_of_rank;
    for (int r = 0; r < size(); ++r) {
      if (!store_->check({"host/" + std::to_string(r)})) store_->wait({"host/" + std::to_string(r)});
      host_of_rank.push_back(text_of(store_->get("host/" + std::to_string(r))));
    }
    meet(host_of_rank);
  } catch (const InputError&) {
    throw;
  } catch (const CannotRun&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerLost("worker " + std::to_string(process_.rank) + ": not all of the " + std::to_string(size()) +
                   " workers came within " + std::to_string(kJoinTimeout.count() / 1000) + " s: " + message_of(error));
  }
  store_->setTimeout(kResultTimeout);
}

void Rendezvous::meet(const std::vector<std::string>& host_of_rank) {
  hosts_ = static_cast<int>(std::set<std::string>(host_of_rank.begin(), host_of_rank.end()).size());
  if (hosts_ == 1) {
    share_memory();
  } else {
    const bool server = process_.rank == 0 && !process_.store_exists;
    const auto watching =
        c10::make_intrusive<c10d::PrefixStore>(prefix(), open_store(process_.address, process_.port, false));
    meeting_ = std::make_unique<StoreMeeting>(store_, watching, process_.rank, size(), server);
  }
  for (int r = 0; r < size(); ++r) {
    const auto host = [&](int rank) { return host_of_rank[static_cast<std::size_t>(rank)]; };
    if (r == process_.rank || host(r) != host(process_.rank)) continue;
    processes_.emplace_back(r, std::stoi(text_of(store_->get("process/" + std::to_string(r)))));
  }
  if (!process_.watched) watch_processes();
  if (hosts_ > 1) return;
  // Worker 0's memory can only be opened while its file is open.
  if (store_->add("mapped", 1) == size()) store_->set("all mapped", bytes_of("1"));
  store_->wait({"all mapped"});
  close(memory_file_);
}

void Rendezvous::watch_processes() {
  watch_ = std::make_unique<Watch>();
  for (const auto& [r, pid] : processes_) {
    const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    // Without pidfd_open (before Linux 5.3) the launcher's own watch must do.
    if (handle < 0 && errno == ESRCH) throw PeerLost("worker " + std::to_string(r) + " has died");
    if (handle < 0) continue;
    watch_->peers.push_back({handle, POLLIN, 0});
    watch_->ranks.push_back(r);
  }
  if (meeting_) {
    watch_->start([this] { return meeting_->all_leaving(); });
  } else {
    watch_->start([this] { return shared_->leaving.load() == size(); });
  }
}

void Rendezvous::share_memory() {
  int file = -1;
  if (process_.rank == 0) {
    file = memfd_create("pdl", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) {
      throw CannotRun(std::string("no memory shared by the workers: ") + std::strerror(errno));
    }
    store_->set("memory", bytes_of("/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file)));
  } else {
    const std::string path = text_of(store_->get("memory"));
    file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) throw CannotRun("no access to the memory of worker 0: " + std::string(std::strerror(errno)));
  }
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) throw CannotRun(std::string("no memory shared by the workers: ") + std::strerror(errno));
  shared_ = static_cast<Shared*>(memory);
  memory_file_ = file;
}

Rendezvous::~Rendezvous() {
  watch_.reset();
  if (shared_) munmap(shared_, sizeof(Shared));
}

Waiting Rendezvous::wait_for_others(const std::string& where) const {
  const auto stopped = [this] {
    std::string text;
    for (const auto& [rank, pid] : processes_) {
      if (is_stopped(pid)) text += (text.empty() ? "" : ", ") + ("worker " + std::to_string(rank));
    }
    return text;
  };
  return Waiting(
      [this, where, stopped] { return name_ + ": waits (" + where + ") for the other workers; stopped: " + stopped(); },
      [stopped] { return !stopped().empty(); });
}

void Rendezvous::barrier() {
  const Waiting waiting = wait_for_others("at a barrier");
  if (meeting_) return wait_in_store();
  const int round = shared_->round.load();
  if (shared_->arrived.fetch_add(1) + 1 == size()) {
    shared_->arrived.store(0);
    shared_->round.store(round + 1);
    return;
  }
  const auto until = std::chrono::steady_clock::now() + milliseconds(5);
  while (shared_->round.load() == round) {
    if (std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

void Rendezvous::wait_in_store() {
  try {
    meeting_->barrier();
  } catch (const std::exception& error) {
    throw PeerLost("worker " + std::to_string(process_.rank) + " lost the others: " + message_of(error));
  }
}

std::vector<std::string> Rendezvous::gather(const std::string& key, const std::string& text) {
  return exchange(key, text, /*reads=*/process_.rank == 0);
}

std::vector<std::string> Rendezvous::share(const std::string& key, const std::string& text) {
  return exchange(key, text, /*reads=*/true);
}

std::vector<std::string> Rendezvous::exchange(const std::string& key, const std::string& text, bool reads) {
  const Waiting waiting = wait_for_others("for " + key);
  std::vector<std::string> all;
  try {
    store_->set(key + "/" + std::to_string(process_.rank), bytes_of(text));
    for (int r = 0; reads && r < size(); ++r) all.push_back(text_of(store_->get(key + "/" + std::to_string(r))));
  } catch (const std::exception& error) {
    throw PeerLost("worker " + std::to_string(process_.rank) + " lost the others: " + message_of(error));
  }
  return all;
}

void Rendezvous::finish() {
  const Waiting waiting = wait_for_others("has finished");
  if (meeting_) return meeting_->finish();
  shared_->leaving.fetch_add(1);
  while (shared_->leaving.load() < size()) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

}  // namespace pdl
