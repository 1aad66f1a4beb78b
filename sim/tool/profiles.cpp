// pdl-sim profiles: the machines that predictions can be made for.
#include <iostream>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/report/text_table.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

void print_profiles() {
  const std::vector<ProfileSummary> profiles = list_profiles();
  if (profiles.empty()) {
    throw InputError("profiles", "no profile in data/", "data/<machine>/profile.json (pdl-calibrate --out writes one)");
  }
  const std::string usual = default_profile_name();
  TextTable table{{{"profile", "", Align::left},
                   {"card", "", Align::left},
                   {"count", ""},
                   {"measured", "", Align::left},
                   {"", "", Align::left}},
                  {}};
  std::string faults;
  for (const ProfileSummary& profile : profiles) {
    const Environment& host = profile.environment;
    if (!profile.error.empty()) {
      table.rows.push_back({profile.name, "cannot be read", "", "", ""});
      faults += wrap("cannot be read: " + profile.name + ": " + profile.error, screen_width(), 2);
      continue;
    }
    table.rows.push_back(
        {profile.name, host.card, std::to_string(host.count), host.date, profile.name == usual ? "default" : ""});
  }
  std::cout << to_text(table);
  if (const std::string warning = folder_without_profiles(); !warning.empty())
    faults += wrap("warning: " + warning, screen_width(), 2);
  if (!faults.empty()) std::cout << "\n" << faults;
}

}  // namespace

void add_profiles(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("profiles", "the profiles there are, with card, count and date of measurement");
  command->footer("Example: pdl-sim profiles");
  command->callback(print_profiles);
}

}  // namespace pdl
