// Workers that are processes: who they are, how they find each other, wait for each other and hand over results.
//
//   std::optional<ProcessRank> me = process_rank();       // RANK, WORLD_SIZE, ... of pdl-run, torchrun, mpirun, srun
//   Rendezvous rendezvous(*me);                           // all have joined
//   rendezvous.barrier();                                 // within microseconds of each other
//   rendezvous.gather("times", text);                     // worker 0 gets everybody's
//   rendezvous.finish();                                  // nobody leaves before all are done
//
// All processes are on one host: they share a steady clock and a page of memory. A key-value store (c10d::TCPStore)
// carries what is not urgent. When a worker dies, the others end: the process that started them sees to it; where that is
// not pdl-run, every worker watches the others itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace pdl {

struct ProcessRank {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string address = "127.0.0.1";
  int port = 0;
  bool store_exists = false;   // the process that started the workers holds the store; else worker 0 does
  bool watched = false;        // started by pdl-run, which watches its workers
};

/// Which process of a group this is. None if it is not one of a group, or of a group of one that pdl-run did not start.
/// Source of the names: torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE),
/// Open MPI (OMPI_COMM_WORLD_*), Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID). `default_port`: where the environment
/// names none. Throws InputError naming the variable that is not a number.
std::optional<ProcessRank> process_rank(int default_port);

class Rendezvous {
 public:
  /// Returns when all have joined. Throws InputError if the port is in use or the workers are on several hosts,
  /// CannotRun if not all of them come within 25 s.
  explicit Rendezvous(const ProcessRank& process);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const { return process_.rank; }
  int size() const { return process_.world_size; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  void barrier();

  /// Worker 0 gets the text of every worker, by rank; the others get nothing. `key` is used once.
  std::vector<std::string> gather(const std::string& key, const std::string& text);

  void finish();

 private:
  struct Shared;  // the page of memory
  struct Watch;

  void share_memory();

  ProcessRank process_;
  c10::intrusive_ptr<c10d::Store> store_;
  Shared* shared_ = nullptr;
  std::unique_ptr<Watch> watch_;
};

/// The store for workers that this process starts. Port 0: any free one; the port taken is written back. Throws
/// InputError naming --port if it is in use.
c10::intrusive_ptr<c10d::Store> start_store(int& port);

}  // namespace pdl
