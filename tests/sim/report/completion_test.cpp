#include "sim/report/completion.hpp"

#include "tests/support/catch.hpp"

using namespace pdl;

// What bash makes of it: tests/program_texts.py.

namespace {

ProgramDescription tool() {
  return {
      .version = "1",
      .program =
          {.name = "a-tool",
           .help = "Does it",
           .options = {{.flags = {"-o", "--out"}, .value_name = "FILE", .help = "it's [here]: x", .takes_file = true}}},
      .commands = {
          {.name = "list",
           .help = "lists",
           .options = {
               {.flags = {"--by"}, .value_name = "a|b", .help = "how", .words = {"a", "b"}, .takes_list = true}}}}};
}

}  // namespace

TEST_CASE("completion for bash: a case a flag with a value, and one for the rest of each command") {
  const std::string script = bash_completion(tool());
  CHECK_THAT(script, ContainsSubstring("\n    list:--by) words='a b' files= list=1 ;;\n"));
  CHECK_THAT(script, ContainsSubstring("\n    :-o|:--out) words='' files=1 list= ;;\n"));
  CHECK_THAT(script, ContainsSubstring("words='-o --out'; else words='list'; fi ;;\n"));
  CHECK(script.ends_with("complete -F _a_tool a-tool\n"));
}

TEST_CASE("completion for zsh: what means something there is escaped in helps") {
  const std::string script = zsh_completion(tool());
  CHECK(script.starts_with("#compdef a-tool\n"));
  CHECK_THAT(script, ContainsSubstring("'--out=[it'\\''s \\[here\\]\\: x]:FILE:_files'"));
  CHECK_THAT(script, ContainsSubstring("'--by=[how]:a|b: _sequence compadd - a b'"));
  CHECK_THAT(script, ContainsSubstring("'1:command:((list\\:\"lists\" ))'"));
}
