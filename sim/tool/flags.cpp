#include "sim/tool/flags.hpp"

#include <algorithm>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

const CLI::App& called(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : *subcommands.front();
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> subcommands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(subcommand->get_name());
  }
  return names;
}

std::string nearest_or_list(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = nearest_word(word, known);
  if (!nearest.empty()) return nearest;
  const std::vector<std::string> alike = words_that_begin_as(word, known);
  return list_words(alike.empty() ? known : alike);
}

/// `word`: "--gups". A flag that the field knows and this program does not is named as such.
std::string expected_flag(const std::string& word, const std::vector<std::string>& flags) {
  const std::string missing = not_modelled("strategy", word.substr(std::min(word.find_first_not_of('-'), word.size())));
  return nearest_or_list(word, flags) + (missing.empty() ? "" : " (" + missing + ")");
}

}  // namespace

OnceFlag::OnceFlag(CLI::App& app, const std::string& flag, const std::string& value_name, const std::string& help,
                   bool alone_is_1)
    : flag_(flag), alone_is_1_(alone_is_1) {
  option_ = app.add_option(flag, values_, help)
                ->type_name(value_name)
                ->allow_extra_args(false)
                ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  alone_is_1 ? option_->expected(0, 1) : option_->expected(1);
}

std::optional<std::string> OnceFlag::value() const {
  if (alone_is_1_ && option_->count() == 1 && (values_.empty() || values_.front().empty())) return "1";
  if (values_.size() > 1) throw InputError(flag_, "given " + std::to_string(values_.size()) + " times", "once");
  if (values_.empty()) return std::nullopt;
  if (values_.front().empty()) throw InputError(flag_, "nothing", "a value");
  return values_.front();
}

SettingFlags::SettingFlags(CLI::App& app, const std::string& more_values)
    : SettingFlags(app, [](const SettingRow&) { return true; }, more_values) {}

SettingFlags::SettingFlags(CLI::App& app, const std::function<bool(const SettingRow&)>& wanted,
                           const std::string& more_values) {
  for (const SettingRow& setting : all_settings()) {
    if (!wanted(setting)) continue;
    flags_.push_back(std::make_unique<OnceFlag>(app, "--" + setting.name, setting.value_name + more_values,
                                                help_of(setting), setting.values == Values::on_off));
  }
}

std::vector<SettingValue> SettingFlags::given() const {
  std::vector<SettingValue> settings;
  for (const auto& flag : flags_) {
    if (const auto value = flag->value()) settings.push_back({flag->flag().substr(2), *value, flag->flag()});
  }
  return settings;
}

// Bound to no variable: CLI11 2.2 and later count a bound flag as given, with its default, when it is not.
Switch::Switch(CLI::App& app, const std::string& flag, const std::string& help)
    : option_(app.add_flag(flag, help)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)) {}

bool Switch::on() const {
  const std::size_t count = option_->count();
  if (count > 1) throw InputError(option_->get_name(), "given " + std::to_string(count) + " times", "once");
  return count == 1;
}

void refuse_command_line(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& active = called(app);
  const std::string place = &active == &app ? "command line" : active.get_name();
  const auto* extras = dynamic_cast<const CLI::ExtrasError*>(&error);
  const std::vector<std::string> left = app.remaining(true);
  if (extras && !left.empty()) {
    // "--gups=5" is looked up without its value.
    const std::string word = left.front().substr(0, left.front().find('='));
    if (word.starts_with("-")) {
      throw InputError(place, "an unknown flag " + word, expected_flag(word, flags_of(active)));
    }
    if (&active == &app) {
      throw InputError(place, "an unknown subcommand " + word, nearest_or_list(word, subcommands_of(app)));
    }
    throw InputError(place, "an argument too many, " + word,
                     "only the options of " + app.get_name() + " " + active.get_name() + " --help");
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) {
    const std::string message = error.what();  // "--json: 1 required FILE|- missing"
    throw InputError(message.substr(0, message.find(':')), "no value", "one");
  }
  throw InputError(place + ": " + error.what());
}

}  // namespace pdl
