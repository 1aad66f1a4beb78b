// pdl-sim profiles: the machines that predictions can be made for.
#include <algorithm>
#include <memory>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/output_flags.hpp"

namespace pdl {
namespace {

/// What a profile has, of what plans may need.
Table what_they_price(const std::vector<ProfileSummary>& profiles) {
  Table table{
      .name = "prices",
      .columns = {
          {"profile", "profile", "", "", Align::left},
          {"data_types", "data types", "", "", Align::left},
          {"ddp", "ddp", "", "DistributedDataParallel: all-reduces were measured", Align::left},
          {"dp", "dp", "", "DataParallel: broadcasts and reduces were measured", Align::left},
          {"products", "any width", "",
           "matrix products of any size have a model; without it a width between two that were measured lies on "
           "a line",
           Align::left},
          {"pauses", "pauses", "", "what a host takes longer after it waited or slept", Align::left},
          {"power_limit", "power limit", "",
           "how much slower layers get at it; without it tensor cores have the clock of their probes", Align::left}}};
  for (const ProfileSummary& summary : profiles) {
    if (!summary.error.empty()) continue;
    const CostProfile profile = load_profile(summary.path);
    std::string dtypes;
    for (const Dtype dtype : kAllDtypes) {
      const auto layers = profile.of(Probe::layer);
      if (std::any_of(layers.begin(), layers.end(), [&](const auto& layer) { return layer.key.dtype == dtype; }))
        dtypes += (dtypes.empty() ? "" : " ") + to_string(dtype);
    }
    const auto has = [](bool there) { return there ? "yes" : "-"; };
    const auto collective = [&](const char* operation) {
      const auto all = profile.of(Probe::collective);
      return has(std::any_of(all.begin(), all.end(), [&](const auto& c) { return c.key.operation == operation; }));
    };
    table.rows.push_back({profile.name, dtypes, collective("all_reduce"), collective("reduce"),
                          has(static_cast<bool>(profile.products)), has(!profile.of(Probe::pause).empty()),
                          has(!profile.of(Probe::sustained).empty())});
  }
  return table;
}

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
  document.blocks.insert(document.blocks.begin(), {table, what_they_price(profiles)});
  return document;
}

}  // namespace

void add_profiles(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "profiles", "the profiles there are, with GPU, count and date of measurement, and what each can price");
  command->footer("Example: pdl-sim profiles");
  auto outputs = std::make_shared<OutputFlags>(*command, OutputFlags::Kinds{});
  command->callback([outputs] {
    outputs->check();
    outputs->show(profiles_document());
  });
}

}  // namespace pdl
