// pdl-sim profiles: the machines that predictions can be made for.
#include <memory>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/output_flags.hpp"

namespace pdl {
namespace {

Document profiles_document() {
  const std::vector<ProfileSummary> profiles = list_profiles();
  if (profiles.empty()) {
    throw InputError("profiles", "no profile in data/", "data/<machine>/profile.json (pdl-calibrate --out writes one)");
  }
  const std::string usual = default_profile_name();
  Table table{.name = "profiles",
              .columns = {{"profile", "profile", "", "", Align::left},
                          {"gpu", "GPU", "", "", Align::left},
                          {"count", "count", "", ""},
                          {"measured", "measured", "", "", Align::left},
                          {"default", "", "", "", Align::left}}};
  Document document{.title = "profiles"};
  for (const ProfileSummary& profile : profiles) {
    const Environment& host = profile.environment;
    if (!profile.error.empty()) {
      table.rows.push_back({profile.name, "cannot be read", "-", "-", ""});
      document.add(Warning{"cannot be read: " + profile.error, profile.name});
      continue;
    }
    table.rows.push_back({profile.name, host.card,
                          TableCell(std::to_string(host.count), static_cast<double>(host.count)), host.date,
                          profile.name == usual ? "default" : ""});
  }
  if (const std::string warning = folder_without_profiles(); !warning.empty()) document.add(Warning{warning});
  document.blocks.insert(document.blocks.begin(), table);
  return document;
}

}  // namespace

void add_profiles(CLI::App& app) {
  CLI::App* command = app.add_subcommand("profiles", "the profiles there are, with GPU, count and date of measurement");
  command->footer("Example: pdl-sim profiles");
  auto outputs = std::make_shared<OutputFlags>(*command, OutputFlags::Kinds{});
  command->callback([outputs] {
    outputs->check();
    outputs->show(profiles_document());
  });
}

}  // namespace pdl
