// A document as one page of HTML that needs no network.
//
//   write_output("run.html", [&](std::ostream& out) { out << to_html(document); });
#pragma once

#include <string>

#include "sim/report/document.hpp"

namespace pdl {

/// UTF-8. Characters that mean something in HTML are escaped wherever they come from.
std::string to_html(const Document& document);

}  // namespace pdl
