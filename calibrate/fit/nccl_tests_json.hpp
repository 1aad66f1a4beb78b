// The JSON report of nccl-tests (-J), read as its table is. Internal to parse_nccl_tests(), which says what is refused.
#pragma once

#include <string>

#include "calibrate/fit/nccl_tests.hpp"

namespace pdl {

/// Throws InputError as parse_json does (sim/io/json_place.hpp; a key given twice too), or naming `place` and
/// the value: "f.json: results[3].in_place.time".
NcclTests parse_nccl_tests_report(const std::string& text, const std::string& place, const NcclTestsOptions& options);

}  // namespace pdl
