// Workers that are processes: who they are, how they find each other, wait for each other and hand over results.
//
//   std::optional<ProcessRank> me = process_rank();       // RANK, WORLD_SIZE, ... of pdl-run, torchrun, mpirun, srun
//   Rendezvous rendezvous(*me);                           // all have joined
//   rendezvous.barrier();                                 // within microseconds of each other
//   rendezvous.gather("times", text);                     // worker 0 gets everybody's
//   rendezvous.finish();                                  // nobody leaves before all are done
//
// On one host they share a steady clock and a page of memory; a key-value store (c10d::TCPStore) carries what is not
// urgent. On several hosts the store does all (runtime/comm/store_meeting.hpp) and there is no common clock. When a
// worker dies, the others end: the process that started them sees to it; where that is not pdl-run, every worker
// watches the others itself. One that hangs ends itself by the limit on waiting (runtime/comm/waiting.hpp); one that is
// stopped ends those on its host that wait for it, by theirs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/comm/waiting.hpp"

namespace pdl {

class StoreMeeting;

struct ProcessRank {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string address = "127.0.0.1";
  int port = 0;
  bool store_exists = false;  // the process that started the workers holds the store; else worker 0 does
  bool watched = false;       // started by pdl-run, which watches its workers
};

/// Which process of a group this is. None if it is not one of a group, or of a group of one that pdl-run did not start.
/// Source of the names: torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT,
/// TORCHELASTIC_USE_AGENT_STORE), Open MPI (OMPI_COMM_WORLD_*), Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID).
/// `default_port`: where the environment names none. Throws InputError naming the variable that is not a number.
std::optional<ProcessRank> process_rank(int default_port);

class Rendezvous {
 public:
  /// Returns when all have joined. Throws InputError if the port is in use, CannotRun if not all of them come within 25
  /// s.
  explicit Rendezvous(const ProcessRank& process);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const { return process_.rank; }
  int size() const { return process_.world_size; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  /// How many hosts the workers are on. A host is known by its boot id, or by the environment variable PDL_HOST where
  /// that is set: containers of one machine that do not see each other's processes.
  int hosts() const { return hosts_; }

  /// On one host all leave it within microseconds of each other.
  void barrier();

  /// Worker 0 gets the text of every worker, by rank; the others get nothing. `key` is used once.
  std::vector<std::string> gather(const std::string& key, const std::string& text);

  /// Every worker gets the text of every worker, by rank. `key` is used once.
  std::vector<std::string> share(const std::string& key, const std::string& text);

  void finish();

 private:
  struct Shared;  // the page of memory
  struct Watch;

  void meet(const std::vector<std::string>& host_of_rank);
  void share_memory();
  void wait_in_store();
  std::vector<std::string> exchange(const std::string& key, const std::string& text, bool reads);
  void watch_processes();
  /// The others' work is theirs, and so is a limit on it: this hangs where one of them on this host is stopped.
  Waiting wait_for_others(const std::string& where) const;

  ProcessRank process_;
  std::string name_;                            // worker 1
  std::vector<std::pair<int, int>> processes_;  // rank and process of the others on this host
  c10::intrusive_ptr<c10d::Store> store_;
  int hosts_ = 1;
  Shared* shared_ = nullptr;  // on one host
  int memory_file_ = -1;
  std::unique_ptr<StoreMeeting> meeting_;  // on several
  std::unique_ptr<Watch> watch_;
};

/// The store for workers that this process starts. Port 0: any free one; the port taken is written back. Throws
/// InputError naming --port if it is in use.
c10::intrusive_ptr<c10d::Store> start_store(int& port);

}  // namespace pdl
