#include "sim/tool/program_texts.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/io/installation.hpp"
#include "sim/report/completion.hpp"
#include "sim/report/man_page.hpp"
#include "sim/spec/schedule.hpp"

namespace pdl {
namespace {

constexpr const char* kMoreValues = ",...";

/// What stands for values in "NAME|auto|FILE.csv": words with a capital are placeholders.
void read_value_name(std::string value_name, ProgramOption& option) {
  option.value_name = value_name;
  if (value_name.ends_with(kMoreValues)) {
    option.takes_list = true;
    value_name.resize(value_name.size() - std::string(kMoreValues).size());
  }
  for (std::size_t begin = 0; begin <= value_name.size();) {
    const std::size_t end = std::min(value_name.find('|', begin), value_name.size());
    const std::string word = value_name.substr(begin, end - begin);
    const bool placeholder = std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::isupper(c); });
    if (word.find("FILE") != std::string::npos || word.find("FOLDER") != std::string::npos ||
        word.find(".json") != std::string::npos)
      option.takes_file = true;
    if (!placeholder && !word.empty() && word != "-") option.words.push_back(word);
    begin = end + 1;
  }
}

std::vector<std::string> words_of_schedules() {
  std::vector<std::string> names;
  for (const Schedule& schedule : schedules()) names.emplace_back(schedule.name);
  return names;
}

std::vector<std::string> words_of_profiles() {
  std::vector<std::string> names;
  for (const ProfileSummary& profile : list_profiles()) names.push_back(profile.name);
  return names;
}

std::vector<std::string> words_of_scenarios() {
  std::vector<std::string> names;
  const std::string folder = bundled_folder("scenarios");
  if (folder.empty()) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

ProgramOption describe_option(const CLI::App& app, const CLI::Option& option, const KnownWords& known) {
  ProgramOption out;
  for (const std::string& name : option.get_snames()) out.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.flags.push_back("--" + name);
  out.help = option.get_description();
  if (option.get_items_expected_max() > 0) {
    read_value_name(option.get_type_name(), out);
    out.value_may_be_left_out = option.get_items_expected_min() == 0 && !out.flags.empty();
    if (option.get_delimiter() == ',') out.takes_list = true;
  }
  const std::string name = out.flags.empty() ? app.get_name() : out.flags.back();
  if (const auto words = known.find(name); words != known.end())
    out.words.insert(out.words.begin(), words->second.begin(), words->second.end());
  return out;
}

ProgramCommand describe_command(const CLI::App& app, const KnownWords& known) {
  ProgramCommand out{app.get_name(), app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options()) out.options.push_back(describe_option(app, *option, known));
  return out;
}

}  // namespace

ProgramDescription describe_program(const CLI::App& app, const KnownWords& known) {
  KnownWords all = known;
  all.insert({"--schedule", words_of_schedules()});
  all.insert({"--profile", words_of_profiles()});
  all.insert({"scenario", words_of_scenarios()});
  ProgramDescription out{project_version(), describe_command(app, all), {}};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    out.commands.push_back(describe_command(*command, all));
  return out;
}

void add_program_texts(CLI::App& app, const KnownWords& known) {
  // Before the other flags are looked at: a required one may be missing. CLI::Success ends the program with code 0.
  app.add_option_function<std::string>(
         "--completion",
         [&app, known](const std::string& shell) {
           if (shell != "bash" && shell != "zsh") throw InputError("--completion", shell, "bash or zsh");
           const ProgramDescription program = describe_program(app, known);
           std::cout << (shell == "bash" ? bash_completion(program) : zsh_completion(program));
           throw CLI::Success();
         },
         "print a script that completes the words of " + app.get_name() + " in this shell")
      ->type_name("bash|zsh");
  app.add_flag_callback(
      "--man-page",
      [&app, known] {
        std::cout << man_page(describe_program(app, known));
        throw CLI::Success();
      },
      "print the manual page, as man reads it");
}

}  // namespace pdl
