// What every fuzzer of tests/fuzz is made of: a loader answers with a value or refuses, and what it answers survives
// being written.
//
//   const std::optional<Model> model = unless_refused([&] { return load_model(file.path()); });
//   require(depth > 0, "a model has layers");            // else libFuzzer keeps the input as a crash
//
// A refusal is an InputError or a CannotRun with a message. Any other exception leaves the fuzzer, which is a crash
// too, and so are a report of a sanitizer, too much time and too much memory (tests/fuzz/fuzz.py has the limits).
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <type_traits>

#include "sim/io/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pdl {

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

inline void require(bool holds, const std::string& what) {
  if (!holds) fail("does not hold: " + what);
}

inline void require_equal(const std::string& first, const std::string& second, const std::string& what) {
  if (first != second) fail(what + " differ:\n" + first + "\n---- and\n" + second);
}

/// Nothing where it is refused, which must say something.
template <class Load>
std::optional<std::invoke_result_t<Load>> unless_refused(Load load) {
  try {
    return load();
  } catch (const InputError& refusal) {
    require(*refusal.what() != '\0', "a refusal has a message");
  } catch (const CannotRun& refusal) {
    require(*refusal.what() != '\0', "a refusal has a message");
  }
  return std::nullopt;
}

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// The input as a file, for loaders that take a name. One file for all inputs of a fuzzer: `path` is where it was
/// written.
inline std::string as_file(const std::string& name, const std::string& text) {
  static const TemporaryFolder folder;
  return folder.write(name, text);
}

}  // namespace pdl
