#include "sim/report/man_page.hpp"

#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("a manual page: what roff would take for a request is escaped, shared flags are named once") {
  const ProgramOption shared{.flags = {"--gpus"}, .value_name = "N", .help = ".5 or 'more' of \\n"};
  const ProgramOption list{.flags = {"--gpus"}, .value_name = "N,...", .help = shared.help, .takes_list = true};
  const ProgramDescription tool{
      .version = "1",
      .program = {.name = "a-tool", .help = "Does it: always.", .footer = "Example:\n  a-tool", .options = {shared}},
      .commands = {{.name = "list", .help = "lists", .options = {list, {.value_name = "FILE"}}}}};
  CHECK(man_page(tool) ==
        ".\\\" Written by a-tool --man-page.\n"
        ".TH A-TOOL 1 \"\" \"pdl 1\" \"pdl\"\n"
        ".SH NAME\na\\-tool \\- does it\n"
        ".SH SYNOPSIS\n\\fBa\\-tool\\fR [options]\n.br\n\\fBa\\-tool\\fR \\fIcommand\\fR [options]\n"
        ".SH DESCRIPTION\nDoes it: always.\n"
        ".SH OPTIONS\n.TP\n\\fB\\-\\-gpus\\fR \\fIN\\fR\n\\&.5 or 'more' of \\en\n"
        ".SH COMMANDS\n.SS \"a\\-tool list\"\nlists.\n.PP\n\\fBa\\-tool list\\fR [options] \\fIFILE\\fR\n"
        ".PP\nAs above, each also as a list: \\fB\\-\\-gpus\\fR.\n"
        ".SH EXAMPLES\n.nf\nExample:\n  a\\-tool\n.fi\n");
}
