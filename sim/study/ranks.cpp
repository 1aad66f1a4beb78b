#include "sim/study/ranks.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <thread>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

using Variable = std::function<const char*(const char*)>;

constexpr std::int64_t kMostRanks = 1'000'000;

/// A launcher's words. Slurm: those of a step, which srun starts; a script of sbatch itself is no rank.
struct Launcher {
  const char* rank;
  const char* size;
  const char* of_host;  // ranks on this host; null: it has no such word
  const char* hosts;    // how many there are; null
};
constexpr std::array<Launcher, 4> kLaunchers = {{
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", nullptr},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr, "SLURM_STEP_NUM_NODES"},
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", nullptr},
}};
constexpr std::array<const char*, 4> kJobs = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID",
                                              "TORCHELASTIC_RUN_ID"};

std::optional<std::int64_t> number(const Variable& variable, const char* name, std::int64_t least,
                                   std::int64_t largest = kMostRanks) {
  const char* text = name ? variable(name) : nullptr;
  if (!text || !*text) return std::nullopt;
  return parse_whole("environment variable " + std::string(name), text, least, largest);
}

std::string job_of(const Variable& variable) {
  for (const char* name : kJobs) {
    if (const char* text = variable(name); text && *text) return text;
  }
  return "";
}

/// Below the ports that a system gives to connections by itself (from 32768 on Linux).
std::int64_t port_of(const std::string& job) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return 20'000 + static_cast<std::int64_t>(hash % 10'000);
}

}  // namespace

std::optional<Ranks> ranks_of_environment(const Variable& variable) {
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = number(variable, launcher.rank, 0), size = number(variable, launcher.size, 1);
    if (!rank || !size) continue;
    if (*rank >= *size) {
      throw InputError("environment variable " + std::string(launcher.rank), std::to_string(*rank),
                       "less than " + std::string(launcher.size) + ", " + std::to_string(*size));
    }
    if (*size == 1) return std::nullopt;
    Ranks ranks{*rank, *size, 1, "127.0.0.1", 0, job_of(variable)};
    const auto of_host = number(variable, launcher.of_host, 1), hosts = number(variable, launcher.hosts, 1);
    ranks.of_host = of_host.value_or(hosts ? (*size + *hosts - 1) / *hosts : *size);
    ranks.port = number(variable, "MASTER_PORT", 1, 65'535).value_or(port_of(ranks.job));
    if (const char* address = variable("MASTER_ADDR"); address && *address) {
      ranks.address = address;
    } else if (ranks.of_host < *size) {
      throw InputError("environment variable MASTER_ADDR",
                       "nothing, with " + std::to_string(*size) + " processes on several hosts",
                       "the name of the host of rank 0, in all of them (mpirun -x MASTER_ADDR=node0)");
    }
    return ranks;
  }
  return std::nullopt;
}

std::int64_t usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());  // more than a cpu_set_t holds
}

}  // namespace pdl
