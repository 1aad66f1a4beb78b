// Where the answer of a command goes: the terminal, and files in other forms, of the same words.
//
//   OutputFlags outputs(*command, {.json = false});      // --csv --markdown --html --warnings
//   outputs.check();                                     // before the work: two outputs in one place are refused
//   outputs.check_inputs();                              // then: an output that would replace an input is
//   outputs.show(document);                              // files first, then the terminal
//
// "-" is the standard output; then the terminal's text is left out. One output at most may go there, and no two to one
// file. Files are written whole or not at all (sim/io/output_file.hpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/report/document.hpp"
#include "sim/tool/flags.hpp"

namespace pdl {

class OutputFlags {
 public:
  struct Kinds {
    /// --json writes to_json(document). Commands whose JSON or CSV is of another format have a flag of their own, and
    /// name it in check().
    bool json = true;
    bool csv = true;
  };
  OutputFlags(CLI::App& app, Kinds kinds);

  /// `others`: further outputs of the command and their flags, given or not. Throws InputError: two of all of them at
  /// one place, or one that nothing can be written to.
  void check(const std::vector<const OnceFlag*>& others = {}) const;

  /// After the inputs were read, before the first output is written. Throws InputError: an output is one of the inputs.
  void check_inputs(const std::vector<const OnceFlag*>& others = {}) const;

  /// The document itself goes somewhere beside the terminal.
  bool asked() const { return !given({}).empty(); }

  /// None of the outputs is "-".
  bool terminal_is_free(const std::vector<const OnceFlag*>& others = {}) const;

  /// `quiet`: not on the terminal. Throws InputError if a file cannot be written, and as check_inputs().
  void show(const Document& document, const std::vector<const OnceFlag*>& others = {}, bool quiet = false) const;

 private:
  std::vector<const OnceFlag*> given(const std::vector<const OnceFlag*>& others) const;

  std::unique_ptr<OnceFlag> json_, csv_, markdown_, html_;
  std::unique_ptr<Switch> warnings_;
};

}  // namespace pdl
