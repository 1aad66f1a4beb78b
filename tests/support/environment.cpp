// Tests answer the same whatever the shell or the launcher of the caller has set: in the programs of the tests, and in
// those that they start, the variables that pdl's programs read are not set unless the test sets them.
#include <stdlib.h>

#include <initializer_list>

namespace {

[[maybe_unused]] const bool unset = [] {
  for (const char* name : {"PDL_DATA",
                           "PDL_HOST",
                           "COLUMNS",
                           "NO_COLOR",
                           "GLOO_SOCKET_IFNAME",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "TORCHELASTIC_RESTART_COUNT",
                           "TORCHELASTIC_USE_AGENT_STORE",  // torchrun
                           "RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",  // torchrun
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK",  // mpirun
                           "SLURM_PROCID",
                           "SLURM_NTASKS",
                           "SLURM_LOCALID",  // srun, a shell in a job
                           "BASH_ENV",
                           "CDPATH"}) {  // scripts of tests
    unsetenv(name);
  }
  return true;
}();

}  // namespace
