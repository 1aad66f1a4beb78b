#include "sim/study/ranks.hpp"

#include <map>

#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Ranks> ranks(const Variables& variables) {
  return ranks_of_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace

TEST_CASE("a process that no launcher started is alone", "[ranks]") {
  CHECK_FALSE(ranks({}));
  CHECK_FALSE(ranks({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
  // A script of sbatch is no step of srun.
  CHECK_FALSE(ranks({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
}

TEST_CASE("ranks of Open MPI, MPICH and Slurm", "[ranks]") {
  const auto open_mpi = ranks({{"OMPI_COMM_WORLD_RANK", "3"},
                               {"OMPI_COMM_WORLD_SIZE", "4"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                               {"PMIX_NAMESPACE", "1234"}});
  REQUIRE(open_mpi);
  CHECK(open_mpi->rank == 3);
  CHECK(open_mpi->size == 4);
  CHECK(open_mpi->of_host == 4);
  CHECK(open_mpi->address == "127.0.0.1");
  CHECK(open_mpi->port >= 20'000);
  CHECK(open_mpi->port < 30'000);
  CHECK(ranks({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})->rank == 1);
  const auto slurm = ranks({{"SLURM_PROCID", "5"},
                            {"SLURM_STEP_NUM_TASKS", "8"},
                            {"SLURM_STEP_NUM_NODES", "2"},
                            {"MASTER_ADDR", "node0"},
                            {"MASTER_PORT", "29500"}});
  REQUIRE(slurm);
  CHECK(slurm->of_host == 4);
  CHECK(slurm->address == "node0");
  CHECK(slurm->port == 29500);
}

TEST_CASE("several hosts need MASTER_ADDR, and what is no number is named", "[ranks]") {
  CHECK_THROWS_WITH(
      ranks({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
      ContainsSubstring("environment variable MASTER_ADDR: found nothing, with 8 processes on several hosts"));
  CHECK_THROWS_WITH(ranks({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}), ContainsSubstring("environment variable PMI_RANK"));
  CHECK_THROWS_AS(ranks({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}), InputError);
}
