#!/usr/bin/env python3
"""document_commands.py finds what is wrong with a document. Each test is a small document and what becomes of its lines."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import document_commands

TEXT = """# A document

Commands, with a comment of their own:

    ./bootstrap sim     # long
                        # a comment
    build/sim/pdl-sim --gpus 2 \\
      --depth 4

    {"a": "file's contents,

    neither a command nor text

```json
{"also": "text"}
```
<!-- example: written by a program -->

    GPU  busy

<!-- /example -->

```
PDL_DATA=x cmake --version
```
"""


def outcome(lines):
    """What is printed for these lines, and how many faults there were."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
        run = document_commands.Run(pathlib.Path(folder), only_list=False)
        for number, line in enumerate(lines, 1):
            run.line(f"doc:{number}", line)
    return printed.getvalue().splitlines(), run.ran, run.failed


class DocumentCommandsTest(unittest.TestCase):
    def test_blocks_and_lines(self):
        self.assertEqual(list(document_commands.commands_of("README.md", TEXT)), [
            ("README.md:5", "./bootstrap sim     # long"),
            ("README.md:7", "build/sim/pdl-sim --gpus 2    --depth 4"),
            ("README.md:12", None),
            ("README.md:24", "PDL_DATA=x cmake --version"),
        ])

    def test_a_line_that_is_no_command_is_a_fault(self):
        printed, ran, failed = outcome([None])
        self.assertEqual((ran, failed), (0, 1))
        self.assertIn("doc:1: neither a command", printed[0])

    def test_a_command_that_fails_is_a_fault_and_says_what_it_said(self):
        printed, ran, failed = outcome(["ls /no/such/folder", "python3 -c pass"])
        self.assertEqual((ran, failed), (2, 1))
        self.assertRegex(printed[0], r"^doc:1: FAILED, .*: ls /no/such/folder$")
        self.assertIn("/no/such/folder", printed[2])
        self.assertRegex(printed[-1], r"^doc:2: ran, ")

    def test_an_exit_code_that_the_document_names(self):
        command = "python3 -c 'raise SystemExit(3)'"
        self.assertEqual(outcome([command + "  # exit code 3"])[1:], (1, 0))
        self.assertEqual(outcome([command + "  # exit code 2"])[1:], (1, 1))
        self.assertEqual(outcome(["python3 -c pass  # exit code 3"])[1:], (1, 1))

    def test_what_reads_a_file_of_a_command_that_was_left_out_is_left_out(self):
        gpus = "build/all/pdl-run --gpus 2 --json run.json"
        printed, ran, failed = outcome([gpus, "cat run.json", "touch run.json", "cat run.json"])
        self.assertEqual((ran, failed), (0, 0))
        self.assertIn("doc:1: left out, needs GPUs", printed[0])
        self.assertIn("doc:2: left out, needs run.json of doc:1", printed[1])
        self.assertEqual(outcome(["touch run.json", gpus, "cat run.json"])[1:], (2, 0))

    def test_lines_see_the_files_of_those_before(self):
        self.assertEqual(outcome(["touch a", "cat a"])[1:], (2, 0))
        self.assertEqual(outcome(["cat a"])[1:], (1, 1))

    def test_every_document_of_the_project_is_commands_and_text(self):
        root = document_commands.ROOT
        for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
            for place, command in document_commands.commands_of(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")):
                self.assertIsNotNone(command, place)
            self.assertEqual(list(document_commands.broken_links(path)), [], path)

    def test_links_that_lead_nowhere(self):
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder) / "a.md"
            document.write_text("[here](a.md#head) and [there](https://example.org/x)\n\n![no](b.png) [no](c/d.md)\n", encoding="utf-8")
            self.assertEqual(list(document_commands.broken_links(document)), [(3, "b.png"), (3, "c/d.md")])

    def test_the_readme_is_read_in_one_sitting(self):
        lines = (document_commands.ROOT / "README.md").read_text(encoding="utf-8").splitlines()
        self.assertLess(len(lines), 150)


if __name__ == "__main__":
    unittest.main()
