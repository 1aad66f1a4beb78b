// Flags that may be given once, and refusals that name the nearest known word.
//
//   auto json = std::make_shared<OnceFlag>(app, "--json", "FILE|-", "write the run as JSON");
//   json->value()      // nothing, or the one value; InputError if given twice
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"
#include "sim/spec/settings.hpp"

namespace pdl {

class OnceFlag {
 public:
  /// `alone_is_1`: the value may be left out, "--recompute" is "--recompute 1".
  OnceFlag(CLI::App& app, const std::string& flag, const std::string& value_name, const std::string& help,
           bool alone_is_1 = false);
  OnceFlag(const OnceFlag&) = delete;

  /// Throws InputError if the flag was given more than once, or without a value.
  std::optional<std::string> value() const;
  const std::string& flag() const { return flag_; }

 private:
  std::string flag_;
  bool alone_is_1_;
  CLI::Option* option_ = nullptr;
  std::vector<std::string> values_;
};

/// The words of a spec, a flag each.
class SettingFlags {
 public:
  /// `more_values`: written behind the name of each value in the help, such as ",..." where lists are taken.
  explicit SettingFlags(CLI::App& app, const std::string& more_values = "");
  /// Only those of which `wanted` is true.
  SettingFlags(CLI::App& app, const std::function<bool(const SettingRow&)>& wanted,
               const std::string& more_values = "");

  /// Those that were given, with the flag as their place. Throws as OnceFlag::value().
  std::vector<SettingValue> given() const;

 private:
  std::vector<std::unique_ptr<OnceFlag>> flags_;
};

/// A flag without a value.
class Switch {
 public:
  Switch(CLI::App& app, const std::string& flag, const std::string& help);
  Switch(const Switch&) = delete;
  /// Throws InputError if given more than once.
  bool on() const;

 private:
  CLI::Option* option_;
};

/// Turns what CLI11 could not parse into an InputError that names the word and the nearest known one.
[[noreturn]] void refuse_command_line(const CLI::App& app, const CLI::ParseError& error);

}  // namespace pdl
