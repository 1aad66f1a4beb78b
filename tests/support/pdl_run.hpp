// pdl-run as a user starts it, alone or from a shell script.
//
//   pdl_run("--device cpu --dim 16", folder).exit_code
//   run_script("$PDL_RUN --device cpu & wait", folder).err
#pragma once

#include <string>

#include "tests/support/process.hpp"

namespace pdl {

inline Process pdl_run(const std::string& arguments, const TemporaryFolder& folder,
                       const std::string& environment = "") {
  return run_program("pdl-run", arguments, folder, environment);
}

}  // namespace pdl
