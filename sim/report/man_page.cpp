#include "sim/report/man_page.hpp"

#include <algorithm>
#include <cctype>

namespace pdl {
namespace {

/// Characters that mean something in roff.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string section(const std::string& name) {
  return ".SH " + upper_case(name) + "\n";
}

/// A paragraph with what it is about in front of it.
std::string option_paragraph(const ProgramOption& option) {
  std::string head;
  for (const std::string& flag : option.flags) head += (head.empty() ? "\\fB" : ", \\fB") + roff(flag) + "\\fR";
  if (!option.value_name.empty()) head += (head.empty() ? "\\fI" : " \\fI") + roff(option.value_name) + "\\fR";
  return ".TP\n" + head + "\n" + roff(option.help) + "\n";
}

/// Lines as they are.
std::string lines(const std::string& text) {
  return ".nf\n" + roff(text) + "\n.fi\n";
}

bool is_of_program(const ProgramDescription& program, const ProgramOption& option) {
  return std::any_of(program.program.options.begin(), program.program.options.end(), [&](const ProgramOption& known) {
    return !known.flags.empty() && known.flags == option.flags && known.help == option.help;
  });
}

std::string command_section(const ProgramDescription& program, const ProgramCommand& command) {
  std::string arguments, shared, own;
  bool lists = false;
  for (const ProgramOption& option : command.options) {
    if (option.flags.empty()) {
      arguments += " \\fI" + roff(option.value_name) + "\\fR";
    } else if (is_of_program(program, option)) {
      shared += (shared.empty() ? "" : ", ") + ("\\fB" + roff(option.flags.back()) + "\\fR");
      lists = lists || option.takes_list;
    } else {
      own += option_paragraph(option);
    }
  }
  std::string out = ".SS \"" + roff(program.program.name + " " + command.name) + "\"\n" + roff(command.help) +
                    ".\n.PP\n\\fB" + roff(program.program.name + " " + command.name) + "\\fR [options]" + arguments +
                    "\n" + own;
  if (!shared.empty()) {
    out += ".PP\n" + std::string(lists ? "As above, each also as a list: " : "As above: ") + shared + ".\n";
  }
  if (!command.footer.empty()) out += ".PP\n" + lines(command.footer);
  return out;
}

}  // namespace

std::string man_page(const ProgramDescription& program) {
  const ProgramCommand& main = program.program;
  std::string what = main.help.substr(0, main.help.find(':'));
  if (!what.empty() && what.back() == '.') what.pop_back();
  if (!what.empty()) what.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(what.front())));
  std::string out = ".\\\" Written by " + main.name + " --man-page.\n.TH " + upper_case(main.name) + " 1 \"\" \"pdl " +
                    program.version + "\" \"pdl\"\n";
  out += section("name") + roff(main.name) + " \\- " + roff(what) + "\n";
  out += section("synopsis") + "\\fB" + roff(main.name) + "\\fR [options]\n";
  if (!program.commands.empty()) out += ".br\n\\fB" + roff(main.name) + "\\fR \\fIcommand\\fR [options]\n";
  out += section("description") + roff(main.help) + "\n";
  out += section("options");
  for (const ProgramOption& option : main.options) out += option_paragraph(option);
  if (!program.commands.empty()) {
    out += section("commands");
    for (const ProgramCommand& command : program.commands) out += command_section(program, command);
  }
  return out + section("examples") + lines(main.footer);
}

}  // namespace pdl
