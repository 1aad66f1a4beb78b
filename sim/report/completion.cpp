#include "sim/report/completion.hpp"

#include <algorithm>

namespace pdl {
namespace {

/// In single quotes of a shell.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string words_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// pdl-sim -> pdl_sim: part of the name of a function.
std::string identifier(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// The flags, and for a program its subcommands: what a case of bash offers where no value is awaited.
std::string flag_words(const ProgramCommand& command) {
  std::vector<std::string> flags;
  for (const ProgramOption& option : command.options)
    flags.insert(flags.end(), option.flags.begin(), option.flags.end());
  return words_of(flags);
}

std::string name_words(const std::vector<ProgramCommand>& commands) {
  std::vector<std::string> names;
  for (const ProgramCommand& command : commands) names.push_back(command.name);
  return words_of(names);
}

const ProgramOption* positional(const ProgramCommand& command) {
  const auto found = std::find_if(command.options.begin(), command.options.end(),
                                  [](const ProgramOption& option) { return option.flags.empty(); });
  return found == command.options.end() ? nullptr : &*found;
}

/// What bash offers for a value: variables of the function.
std::string bash_values(const ProgramOption& option) {
  return "words=" + shell_quoted(words_of(option.words)) + " files=" + (option.takes_file ? "1" : "") +
         " list=" + (option.takes_list ? "1" : "");
}

/// A case for the values of each flag, and one for everything else. `name`: of the subcommand, empty for the program.
std::string bash_cases(const ProgramCommand& command, const std::string& name, const std::string& subcommands) {
  std::string cases;
  for (const ProgramOption& option : command.options) {
    if (option.flags.empty() || option.value_name.empty()) continue;
    std::string pattern;
    for (const std::string& flag : option.flags) pattern += (pattern.empty() ? "" : "|") + name + ":" + flag;
    cases += "    " + pattern + ") " + bash_values(option) + " ;;\n";
  }
  const ProgramOption* argument = positional(command);
  cases +=
      "    " + name + ":*)\n      if [[ $cur == -* ]]; then words=" + shell_quoted(flag_words(command)) + "; else ";
  cases += argument ? bash_values(*argument) : "words=" + shell_quoted(subcommands);
  return cases + "; fi ;;\n";
}

/// What stands for itself in an argument of zsh's _arguments.
std::string zsh_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

/// "NAME:action" for the value of an option.
std::string zsh_value(const ProgramOption& option) {
  const std::string name = zsh_escaped(option.value_name), words = words_of(option.words);
  std::string action;
  if (option.takes_list && !option.words.empty()) {
    action = " _sequence compadd - " + words;
  } else if (option.takes_file && !option.words.empty()) {
    action = "{ compadd - " + words + "; _files }";
  } else if (option.takes_file) {
    action = "_files";
  } else if (!option.words.empty()) {
    action = "(" + words + ")";
  } else {
    action = " ";
  }
  return name + ":" + action;
}

std::string zsh_arguments(const ProgramCommand& command, const std::string& more) {
  std::string out = "_arguments";
  for (const ProgramOption& option : command.options) {
    const bool has_value = !option.value_name.empty();
    if (option.flags.empty()) out += " \\\n        " + shell_quoted("*:" + zsh_value(option));
    for (const std::string& flag : option.flags) {
      const bool is_long = flag.starts_with("--");
      std::string argument = flag + (has_value && is_long ? "=" : "") + "[" + zsh_escaped(option.help) + "]";
      if (has_value) argument += (option.value_may_be_left_out ? "::" : ":") + zsh_value(option);
      out += " \\\n        " + shell_quoted(argument);
    }
  }
  return out + more;
}

}  // namespace

std::string bash_completion(const ProgramDescription& program) {
  const std::string name = program.program.name, function = "_" + identifier(name),
                    subcommands = name_words(program.commands);
  std::string cases;
  for (const ProgramCommand& command : program.commands) cases += bash_cases(command, command.name, "");
  cases += bash_cases(program.program, "", subcommands);
  std::string find_command;
  if (!program.commands.empty()) {
    std::string names = subcommands;
    std::replace(names.begin(), names.end(), ' ', '|');
    find_command = "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case $word in\n      " + names +
                   ") command=$word; break ;;\n    esac\n  done\n";
  }
  return "# Completion of " + name + " for bash: source it, or put it into share/bash-completion/completions.\n" +
         "# Written by " + name + " --completion bash.\n" + function + "() {\n" +
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= words= files= list= word "
         "before=\n"
         "  # --flag=value is three words\n"
         "  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n" +
         find_command + "  case $command:$prev in\n" + cases +
         "  esac\n"
         "  if [[ -n $list && $cur == *,* ]]; then before=${cur%,*},; fi\n"
         "  COMPREPLY=($(compgen -P \"$before\" -W \"$words\" -- \"${cur#\"$before\"}\"))\n"
         "  if [[ -n $files ]]; then\n"
         "    local IFS=$'\\n'\n"
         "    compopt -o filenames 2>/dev/null\n"
         "    COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
         "  fi\n"
         "}\n"
         "complete -F " +
         function + " " + name + "\n";
}

std::string zsh_completion(const ProgramDescription& program) {
  const std::string name = program.program.name, function = "_" + name;
  std::string subcommands, cases;
  for (const ProgramCommand& command : program.commands) {
    subcommands += (subcommands.empty() ? "" : "|") + command.name;
    // The first argument is the subcommand itself.
    cases += "    (" + command.name + ")\n      " + zsh_arguments(command, " \\\n        '1: : '") + "\n      ;;\n";
  }
  std::string more;
  if (!program.commands.empty()) {
    std::string list = "1:command:((";
    for (const ProgramCommand& command : program.commands)
      list += command.name + "\\:\"" + zsh_escaped(command.help) + "\" ";
    more = " \\\n        " + shell_quoted(list + "))");
  }
  std::string find_command;
  if (!subcommands.empty()) {
    find_command = "  for word in ${words[2,CURRENT-1]}; do\n    case $word in\n      (" + subcommands +
                   ") command=$word; break ;;\n    esac\n  done\n";
  }
  return "#compdef " + name + "\n# Completion of " + name +
         " for zsh: put it into share/zsh/site-functions, or a folder of $fpath, as " + function + ".\n# Written by " +
         name + " --completion zsh.\n" + function + "() {\n  local command= word\n" + find_command +
         "  case $command in\n" + cases + "    (*)\n      " + zsh_arguments(program.program, more) +
         "\n      ;;\n  esac\n}\n" + "if [ \"$funcstack[1]\" = \"" + function + "\" ]; then " + function +
         " \"$@\"; else compdef " + function + " " + name + "; fi\n";
}

}  // namespace pdl
