// What this program is, and where the files are that came with it.
//
//   version_text("pdl-sim")    -> "pdl-sim 0.1"
//   bundled_folder("data")     -> "/opt/pdl/share/pdl/data" of /opt/pdl/bin/pdl-sim
//
// An installed program finds its files from where it is, so that the folder of an installation can be moved; a program
// in its build tree finds those of the source tree. Not here: $PDL_DATA, which is about profiles alone
// (sim/cost/profile_folders.cpp).
#pragma once

#include <string>

namespace pdl {

/// What --version prints: the program and the version of the project, which is CMake's.
std::string version_text(const std::string& program);

/// "0.1"
std::string project_version();

/// For a library, whose program is somebody else's: the folder that has data/ and scenarios/. Not while others ask.
void set_bundled_folder(const std::string& folder);

/// "data" or "scenarios": in the folder that was set, if it has one; else ../share/pdl/NAME seen from the folder of
/// this program, links to it followed; where there is no such folder, NAME in the source tree that the program was
/// built from. Empty where there is neither.
std::string bundled_folder(const std::string& name);

}  // namespace pdl
