// pdl-sim profiles: the machines that predictions can be made for.
#include <algorithm>
#include <memory>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/power_limit.hpp"
#include "sim/io/error.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/output_flags.hpp"

namespace pdl {
namespace {

/// What a profile has, of what plans may need. Those that cannot be read have their error afterwards.
Table what_they_price(std::vector<ProfileSummary>& profiles) {
  Table table{
      .name = "prices",
      .columns = {{"profile", "profile", "", "", Align::left},
                  {"data_types", "data types", "", "", Align::left},
                  {"ddp", "ddp", "", "DistributedDataParallel: all-reduces were measured", Align::left},
                  {"dp", "dp", "", "DataParallel: broadcasts and reduces were measured", Align::left},
                  {"products", "any width", "",
                   "matrix products of any size have a model; without it widths between those that were measured are "
                   "interpolated",
                   Align::left},
                  {"pauses", "pauses", "", "what a host takes longer after it waited or slept", Align::left},
                  {"power_limit", "power limit", "",
                   "how much slower layers get at it was measured; without it steps on tensor cores are priced at the "
                   "clock of the probes, which is often too slow",
                   Align::left}}};
  for (ProfileSummary& summary : profiles) {
    if (!summary.error.empty()) continue;
    CostProfile profile;
    try {
      profile = load_profile(summary.path);
    } catch (const InputError& error) {  // below its head
      summary.error = error.what();
      continue;
    }
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
    const auto limit_is_known = [&](Dtype dtype) { return PowerLimit(profile, dtype).is_known(); };
    table.rows.push_back({summary.name, dtypes, collective("all_reduce"), collective("reduce"),
                          has(static_cast<bool>(profile.products)), has(!profile.of(Probe::pause).empty()),
                          has(std::any_of(kAllDtypes.begin(), kAllDtypes.end(), limit_is_known))});
  }
  return table;
}

Document profiles_document() {
  std::vector<ProfileSummary> profiles = list_profiles();
  if (profiles.empty()) {
    throw InputError("profiles", "no profile in data/", "data/<machine>/profile.json (pdl-calibrate --out writes one)");
  }
  const Table prices = what_they_price(profiles);
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
  document.blocks.insert(document.blocks.begin(), {table, prices});
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
