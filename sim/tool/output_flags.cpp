#include "sim/tool/output_flags.hpp"

#include <filesystem>
#include <iostream>

#include "sim/io/error.hpp"
#include "sim/io/input_file.hpp"
#include "sim/io/output_file.hpp"
#include "sim/report/html.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

/// The same file has one place however it is spelled: "x", "./x", through a link.
std::string place_of_output(const std::string& path) {
  if (path == "-" || path == "/dev/stdout") return "-";
  std::error_code unknown;
  const auto place = std::filesystem::weakly_canonical(std::filesystem::absolute(path), unknown);
  return unknown ? path : place.string();
}

void write_text(const OnceFlag& flag, const std::string& text) {
  write_output(*flag.value(), [&](std::ostream& out) { out << text; });
}

}  // namespace

OutputFlags::OutputFlags(CLI::App& app, Kinds kinds) {
  const auto flag = [&](const std::string& name, const std::string& help) {
    return std::make_unique<OnceFlag>(app, name, "FILE|-", help + "; -: to standard output, without the text");
  };
  if (kinds.json) json_ = flag("--json", "write tables and text as JSON");
  if (kinds.csv) csv_ = flag("--csv", "write the tables as CSV, numbers in full");
  markdown_ = flag("--markdown", "write tables and text as Markdown");
  html_ = flag("--html", "write a page with tables and figures that needs no network");
  warnings_ = std::make_unique<Switch>(app, "--warnings", "all warnings (default: the first three)");
}

std::vector<const OnceFlag*> OutputFlags::given(const std::vector<const OnceFlag*>& others) const {
  std::vector<const OnceFlag*> flags = others;
  for (const auto* flag : {&json_, &csv_, &markdown_, &html_}) {
    if (*flag) flags.push_back(flag->get());
  }
  std::erase_if(flags, [](const OnceFlag* flag) { return !flag->value(); });
  return flags;
}

void OutputFlags::check(const std::vector<const OnceFlag*>& others) const {
  const std::vector<const OnceFlag*> flags = given(others);
  for (std::size_t a = 0; a < flags.size(); ++a) {
    check_writable(flags[a]->flag(), *flags[a]->value());
    for (std::size_t b = a + 1; b < flags.size(); ++b) {
      const std::string place = *flags[b]->value();
      if (place_of_output(place) != place_of_output(*flags[a]->value())) continue;
      if (place_of_output(place) == "-")
        throw InputError(flags[b]->flag(), "- beside " + flags[a]->flag() + " -", "one of them to standard output");
      throw InputError(flags[b]->flag(), place + ", the file of " + flags[a]->flag() + " too", "a file of its own");
    }
  }
}

void OutputFlags::check_inputs(const std::vector<const OnceFlag*>& others) const {
  for (const OnceFlag* flag : given(others)) {
    const std::string path = *flag->value();
    if (path != "-" && was_read_as_input(path))
      throw InputError(flag->flag(), path + ", which was read as an input", "a file of its own");
  }
}

bool OutputFlags::terminal_is_free(const std::vector<const OnceFlag*>& others) const {
  for (const OnceFlag* flag : given(others)) {
    if (place_of_output(*flag->value()) == "-") return false;
  }
  return true;
}

void OutputFlags::show(const Document& document, const std::vector<const OnceFlag*>& others, bool quiet) const {
  check_inputs(others);
  if (json_ && json_->value()) write_json(*json_->value(), to_json(document));
  if (csv_ && csv_->value()) write_text(*csv_, to_csv(document));
  if (markdown_->value()) write_text(*markdown_, to_markdown(document));
  if (html_->value()) write_text(*html_, to_html(document));
  if (!quiet && terminal_is_free(others))
    std::cout << to_terminal(document, {.width = screen_width(), .all_warnings = warnings_->on()});
}

}  // namespace pdl
