#include "runtime/pytorch/interpreter.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/comm/waiting.hpp"
#include "sim/io/error.hpp"
#include "sim/io/installation.hpp"

namespace pdl {
namespace {

constexpr int kNoPytorch = 4;
constexpr int kLongestEnd_ms = 3000;

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
  void write(const std::string& text) const {
    std::ofstream file(path(), std::ios::trunc);
    if (!(file << text << std::flush)) throw CannotRun("a file in memory cannot be written");
  }

 private:
  int descriptor_;
};

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// The interpreter, with its standard input on a socket, its output on a pipe and its errors in a file. Ended with the
/// scope: it is told, and killed where it does not end.
class Interpreter {
 public:
  Interpreter(std::vector<std::string> words, const std::string& errors) {
    int in[2], out[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
      throw CannotRun("no socket: " + std::string(std::strerror(errno)));
    if (pipe2(out, O_CLOEXEC) != 0) {
      const int error = errno;
      close(in[0]);
      close(in[1]);
      throw CannotRun("no pipe: " + std::string(std::strerror(error)));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_APPEND, 0600);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int error = posix_spawnp(&pid_, words.front().c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[1]);
    close(out[1]);
    input_ = in[0];
    output_ = out[0];
    if (error == 0) return;
    pid_ = 0;
    close(input_);
    close(output_);
    throw InputError("--python", words.front() + ", which cannot be started: " + std::strerror(error),
                     "a Python interpreter that has PyTorch");
  }
  ~Interpreter() {
    close(input_);  // its loop ends: it ends its processes and removes their folder
    for (int waits = 0; pid_ > 0 && waits < kLongestEnd_ms; ++waits) {
      if (waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = 0;
      if (pid_ > 0) usleep(1000);
    }
    close(output_);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// One that has ended is noticed by line().
  void say_that_there_is_a_question() const { send(input_, "ask\n", 4, MSG_NOSIGNAL); }

  /// The next line of its output; nothing: it has ended.
  std::optional<std::string> line() {
    char buffer[512];
    while (true) {
      const std::size_t end = text_.find('\n');
      if (end != std::string::npos) {
        std::string found = text_.substr(0, end);
        text_.erase(0, end + 1);
        return found;
      }
      const ssize_t count = read(output_, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return std::nullopt;
      text_.append(buffer, static_cast<std::size_t>(count));
    }
  }

  /// After its last line.
  int status() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
  int input_ = -1, output_ = -1;
  std::string text_;
};

std::string script_of_this_program(const std::string& name) {
  const std::string folder = bundled_folder("runtime/pytorch");
  if (folder.empty()) throw CannotRun("runtime/pytorch/" + name + ", which came with this program, is not there");
  return folder + "/" + name;
}

[[noreturn]] void refuse_ended(int status, const std::string& said, const std::string& python) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == kExitFine)
    throw InputError("--python", python + ", which gave no answer", "a Python interpreter that has PyTorch");
  if (code == kNoPytorch) {
    throw InputError("--python", python + ", which has no PyTorch (" + said + ")", "a Python interpreter that has it");
  }
  std::string why = said.empty() ? "it ended with exit code " + std::to_string(code) + " and said nothing" : said;
  if (WIFSIGNALED(status)) why = "it was killed by signal " + std::to_string(WTERMSIG(status));
  throw CannotRun("PyTorch by " + python + ": " + why);
}

}  // namespace

struct PythonProgram::Process {
  Process(const std::string& python, const std::string& script)
      : interpreter({python, script_of_this_program(script), question.path(), answer.path()}, errors.path()) {}

  MemoryFile question{"pdl-question"}, answer{"pdl-answer"}, errors{"pdl-errors"};
  Interpreter interpreter;
};

PythonProgram::PythonProgram(std::string python, std::string script)
    : python_(std::move(python)), script_(std::move(script)) {}

PythonProgram::~PythonProgram() = default;

nlohmann::json PythonProgram::ask(const nlohmann::ordered_json& asked,
                                  const std::function<void(const std::string&)>& line) {
  const Waiting waiting("PyTorch's processes, of which none gets on");
  if (!process_) process_ = std::make_unique<Process>(python_, script_);
  process_->question.write(asked.dump());
  process_->interpreter.say_that_there_is_a_question();
  while (const std::optional<std::string> said = process_->interpreter.line()) {
    Waiting::renew();
    if (*said == "answered") {
      nlohmann::json json = nlohmann::json::parse(process_->answer.text(), nullptr, /*allow_exceptions=*/false);
      if (json.is_object()) return json;
      refuse_ended(0, "", python_);
    }
    if (*said == "refused") {
      throw InputError("PyTorch by " + python_, last_line(process_->errors.text()), "what this PyTorch can run");
    }
    if (*said == "failed") throw CannotRun("PyTorch by " + python_ + ": " + last_line(process_->errors.text()));
    line(*said);
  }
  const std::unique_ptr<Process> ended = std::move(process_);
  const int status = ended->interpreter.status();
  refuse_ended(status, last_line(ended->errors.text()), python_);
}

}  // namespace pdl
