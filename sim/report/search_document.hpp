// What a search for the best configuration found, for people: tables "searched" (what was chosen among), "plan" (the
// best, with their error bars), "lost" (why the others are not among them, by dimension), "refused", "parts" and
// "changes" (where the steps of the best two go, and what the second would need to win); the command lines of the best.
//
//   rank  verdict  schedule  microbatches  step time (ms)  ± (%)  bubble (%)  peak memory (GiB)  measured (ms)
//   -----------------------------------------------------------------------------------------------------------
//      1  tie      zb-v                 16          43.112    1.1         4.9               1.31         43.307
//      2  tie      ...
//
// Not here: the search (sim/study/configuration_search.hpp).
#pragma once

#include <string>

#include "sim/report/document.hpp"
#include "sim/study/configuration_search.hpp"

namespace pdl {

/// `flags`: what the command lines of pdl-sim have beside the words of the best: " --profile h200", or nothing.
Document search_document(const ConfigurationSearch& search, const std::string& flags = "");

}  // namespace pdl
