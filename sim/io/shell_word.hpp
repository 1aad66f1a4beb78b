// A word as a shell reads it back.
//
//   shell_word("orders/mine.csv")   orders/mine.csv
//   shell_word("my model.json")     'my model.json'
#pragma once

#include <string>

namespace pdl {

/// In single quotes where a shell would take it apart.
std::string shell_word(const std::string& word);

}  // namespace pdl
