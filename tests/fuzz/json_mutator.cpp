// How libFuzzer changes an input that is JSON: mostly a value of it (another number, a key left out, a value copied to
// another place), so that what comes out is JSON again and reaches what reads its keys. Other inputs, and JSON now and
// then, are changed byte by byte.
//
//   {"gpus": 2, "rows": [1, 2]}   ->   {"gpus": 9223372036854775807, "rows": [1, 2]}   or   {"rows": [1, 2, 1]}
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using nlohmann::ordered_json;
using Random = std::minstd_rand;

std::size_t below(Random& random, std::size_t count) {
  return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
}

/// All values of a document, itself first.
void collect(ordered_json& value, std::vector<ordered_json*>& values) {
  values.push_back(&value);
  if (!value.is_structured()) return;
  for (ordered_json& inside : value) collect(inside, values);
}

/// Where programs break: nothing, limits of integers, the smallest and largest numbers, neighbours of powers of two.
ordered_json other_number(const ordered_json& number, Random& random) {
  const double as_double = number.get<double>();
  switch (below(random, 10)) {
    case 0: return 0;
    case 1: return -1;
    case 2: return INT64_MAX;
    case 3: return INT64_MIN;
    case 4: return UINT64_MAX;
    case 5: return 1e308;
    case 6: return 5e-324;
    case 7: return (std::int64_t{1} << below(random, 62)) - static_cast<std::int64_t>(below(random, 2));
    case 8: return as_double * 1.5;
    default:
      if (!number.is_number_integer()) return as_double / 1000;
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(number.get<std::int64_t>()) + below(random, 3) - 1);
  }
}

ordered_json other_text(std::string text, Random& random) {
  if (text.empty() || below(random, 4) == 0) return text + static_cast<char>('0' + below(random, 75));
  const std::size_t at = below(random, text.size());
  if (below(random, 2) == 0) return text.substr(0, at);
  text[at] = static_cast<char>(' ' + below(random, 95));
  return text;
}

/// Other values, fewer or more of them.
void change_structure(ordered_json& value, const ordered_json& other, Random& random) {
  if (value.empty()) {
    if (value.is_array()) value.push_back(other);
    return;
  }
  const auto at = std::next(value.begin(), static_cast<std::ptrdiff_t>(below(random, value.size())));
  switch (below(random, 3)) {
    case 0: value.erase(at); return;
    case 1: *at = other; return;
    default:
      if (value.is_array()) value.push_back(ordered_json(*at));
  }
}

void change(ordered_json& document, Random& random) {
  std::vector<ordered_json*> values;
  collect(document, values);
  const ordered_json other = *values[below(random, values.size())];
  ordered_json& value = *values[below(random, values.size())];
  if (value.is_structured()) return change_structure(value, other, random);
  if (below(random, 8) == 0) {
    value = other;
  } else if (value.is_number()) {
    value = other_number(value, random);
  } else if (value.is_string()) {
    value = other_text(value.get<std::string>(), random);
  } else if (value.is_boolean()) {
    value = !value.get<bool>();
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  Random random(seed);
  constexpr std::size_t kLargestDocument = 1 << 16;
  const bool may_be_json = size > 1 && size < kLargestDocument && data[0] == '{';
  if (!may_be_json || below(random, 5) == 0) return LLVMFuzzerMutate(data, size, most);
  ordered_json document = ordered_json::parse(data, data + size, nullptr, false);
  if (document.is_discarded()) return LLVMFuzzerMutate(data, size, most);
  for (std::size_t changes = 1 + below(random, 3); changes > 0; --changes) change(document, random);
  const std::string text = document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
