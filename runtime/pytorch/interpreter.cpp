#include "runtime/pytorch/interpreter.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "runtime/comm/waiting.hpp"
#include "sim/io/error.hpp"
#include "sim/io/installation.hpp"

namespace pdl {
namespace {

constexpr int kNoPytorch = 4;

/// A file without a name, in memory: the interpreter inherits it, and nothing is left of it once both have ended,
/// however they do.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : descriptor_(memfd_create(name, 0)) {
    if (descriptor_ < 0) throw CannotRun(std::string("no file in memory: ") + std::strerror(errno));
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// For this process and those that it starts.
  std::string path() const { return "/dev/fd/" + std::to_string(descriptor_); }
  std::string text() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  int descriptor_;
};

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// The interpreter, with its standard output on a pipe and its standard error in a file. Killed at the end of the scope
/// if it is still there.
class Interpreter {
 public:
  Interpreter(std::vector<std::string> words, const std::string& errors) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw CannotRun("no pipe: " + std::string(std::strerror(errno)));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int error = posix_spawnp(&pid_, words.front().c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = ends[0];
    if (error == 0) return;
    close(output_);
    throw InputError("--python", words.front() + ", which cannot be started: " + std::strerror(error),
                     "a Python interpreter that has PyTorch");
  }
  ~Interpreter() {
    close(output_);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Calls `line` for each line of its output, until there is no more; then its status.
  template <typename Line>
  int run(const Line& line) {
    std::string text;
    char buffer[512];
    while (true) {
      const ssize_t count = read(output_, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      text.append(buffer, static_cast<std::size_t>(count));
      for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
        line(text.substr(0, end));
        text.erase(0, end + 1);
      }
    }
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
  int output_ = -1;
};

std::string script_of_this_program(const std::string& name) {
  const std::string folder = bundled_folder("runtime/pytorch");
  if (folder.empty()) throw CannotRun("runtime/pytorch/" + name + ", which came with this program, is not there");
  return folder + "/" + name;
}

/// What the program has written, or why it has not.
nlohmann::json answer_of(int status, const std::string& answer, const std::string& errors, const std::string& python) {
  const std::string said = last_line(errors);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == kExitFine) {
    nlohmann::json json = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) return json;
    throw InputError("--python", python + ", which gave no answer", "a Python interpreter that has PyTorch");
  }
  if (code == kNoPytorch) {
    throw InputError("--python", python + ", which has no PyTorch (" + said + ")", "a Python interpreter that has it");
  }
  if (code == kExitInput) throw InputError("PyTorch by " + python, said, "what this PyTorch can run");
  throw CannotRun("PyTorch by " + python + ": " + (said.empty() ? "it was killed" : said));
}

}  // namespace

nlohmann::json run_python(const std::string& python, const std::string& script, const nlohmann::ordered_json& asked,
                          const std::function<void(const std::string&)>& line) {
  const MemoryFile question("pdl-question"), answer("pdl-answer"), errors("pdl-errors");
  std::ofstream(question.path()) << asked;
  int status = 0;
  {
    const Waiting waiting("PyTorch's processes, of which none gets on");
    Interpreter interpreter({python, script_of_this_program(script), question.path(), answer.path()}, errors.path());
    status = interpreter.run([&](const std::string& said) {
      Waiting::renew();
      line(said);
    });
  }
  return answer_of(status, answer.text(), errors.text(), python);
}

}  // namespace pdl
