// Runs a built program as a user would, and keeps what it said.
//
//   const Process run = run_program("pdl-sim", "--gpus 0", folder);
//   run.exit_code, run.out, run.err
#pragma once

#include <stdlib.h>
#include <sys/wait.h>

#include <string>

#include "tests/support/golden.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pdl {

struct Process {
  int exit_code = -1;  // 128 + signal if it was killed by one
  std::string out;
  std::string err;
};

/// `arguments` as in a shell. `environment`: words such as "COLUMNS=80" put before. The program runs in `folder`.
inline Process run_program(const std::string& name, const std::string& arguments, const TemporaryFolder& folder,
                           const std::string& environment = "") {
  const std::string command = "cd '" + folder.path() + "' && env -u COLUMNS " + environment + " timeout 240 '" +
                              PDL_BINARY_DIR + "/" + name + "' " + arguments + " >'" + folder / "stdout" + "' 2>'" +
                              folder / "stderr" + "' </dev/null";
  const int status = std::system(command.c_str());
  Process process;
  process.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  process.out = read_text(folder / "stdout");
  process.err = read_text(folder / "stderr");
  return process;
}

/// Runs a shell script in the folder. $PDL_RUN, $PDL_SIM and $PDL_CALIBRATE are the programs.
inline Process run_script(const std::string& script, const TemporaryFolder& folder) {
  const std::string programs = PDL_BINARY_DIR;
  const std::string file = folder.write("script", script);
  const std::string command = "cd '" + folder.path() + "' && PDL_RUN='" + programs + "/pdl-run' PDL_SIM='" + programs +
                              "/pdl-sim' PDL_CALIBRATE='" + programs + "/pdl-calibrate' timeout 240 bash '" + file +
                              "' >'" + folder / "stdout" + "' 2>'" + folder / "stderr" + "' </dev/null";
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), read_text(folder / "stdout"), read_text(folder / "stderr")};
}

}  // namespace pdl
