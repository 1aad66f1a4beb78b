// Programs in Python that came with this one (runtime/pytorch/*.py): they are asked in a file, and answer in another.
//
//   PythonProgram trainer("python3", "train.py");
//   trainer.ask(plan, [](const std::string& line) { ... })      the JSON that it has answered
//   trainer.ask(another, ...)                                   the same process, which has PyTorch already
//
//   this process   question  -->  python3 train.py QUESTION ANSWER  --> answer
//                  a line    -->  its standard input: there is a question
//                  lines     <--  its standard output: progress; then "answered", "refused" or "failed"
//
// Both files are in memory and gone afterwards. The interpreter ends when this process does. Each line that it writes
// counts as getting on (runtime/comm/waiting.hpp). Where it refuses or fails, the last line of its standard error says
// why; after a failure that ended it the next question starts it again. Its exit code 4: there is no PyTorch.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace pdl {

class PythonProgram {
 public:
  /// `python`: the interpreter, a path or a name that is looked for as the shell does. Nothing is started before
  /// something is asked.
  PythonProgram(std::string python, std::string script);
  ~PythonProgram();
  PythonProgram(const PythonProgram&) = delete;
  PythonProgram& operator=(const PythonProgram&) = delete;

  /// `line`: is told of its progress. Throws InputError: there is no such interpreter, it has no PyTorch, or it refuses
  /// what is asked; CannotRun: it has failed.
  nlohmann::json ask(const nlohmann::ordered_json& asked, const std::function<void(const std::string&)>& line);

 private:
  struct Process;
  std::string python_, script_;
  std::unique_ptr<Process> process_;
};

}  // namespace pdl
