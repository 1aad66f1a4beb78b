// pdl-run as a user starts it, alone or from a shell script.
//
//   pdl_run("--device cpu --dim 16", folder).exit_code
//   shell("$PDL_RUN --device cpu & wait", folder).err
#pragma once

#include <cstdlib>
#include <string>

#include "tests/support/process.hpp"

namespace pdl {

inline Process pdl_run(const std::string& arguments, const TemporaryFolder& folder, const std::string& environment = "") {
  return run_program("pdl-run", arguments, folder, environment);
}

/// Runs a shell script in the folder. $PDL_RUN is the program.
inline Process shell(const std::string& script, const TemporaryFolder& folder) {
  const std::string file = folder.write("script", script);
  const std::string command = "cd '" + folder.path() + "' && PDL_RUN='" + PDL_BINARY_DIR + "/pdl-run' timeout 240 bash '" +
                              file + "' >'" + folder / "stdout" + "' 2>'" + folder / "stderr" + "' </dev/null";
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), read_text(folder / "stdout"), read_text(folder / "stderr")};
}

}  // namespace pdl
