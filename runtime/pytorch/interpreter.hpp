// Programs in Python that came with this one (runtime/pytorch/*.py): they are told what to do in a file, and answer in
// another.
//
//   run_python("python3", "train.py", plan, [](const std::string& line) { ... })      the JSON that it has written
//
//   this process   asked.json -->  python3 train.py asked.json answer.json  --> answer.json
//                  line       <--  its standard output
//
// Both files are in memory and gone afterwards. The interpreter ends when this process does. Each line that
// it writes counts as getting on (runtime/comm/waiting.hpp). Exit codes: 0 fine; 2 what was asked cannot be done by
// this PyTorch; 4 there is no PyTorch; any other: it failed. The last line of its standard error says why.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace pdl {

/// `python`: the interpreter, a path or a name that is looked for as the shell does. Throws InputError: there is none,
/// it has no PyTorch, or it refuses what is asked; CannotRun: it has failed.
nlohmann::json run_python(const std::string& python, const std::string& script, const nlohmann::ordered_json& asked,
                          const std::function<void(const std::string&)>& line);

}  // namespace pdl
