#include "sim/cost/product_json.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "sim/cost/choice_text.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

using nlohmann::ordered_json;
using Words = std::vector<std::string>;

constexpr std::int64_t kLargest = std::int64_t{1} << 30;
constexpr std::int64_t kLargestTile = 4096, kLargestCluster = 64, kMostResident = 1024;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20, kMostSplits = std::int64_t{1} << 16;

double five_digits(double number) {
  char text[64];
  std::snprintf(text, sizeof text, "%.5g", number);
  return std::strtod(text, nullptr);
}

constexpr std::pair<const char*, bool KernelTiling::*> kFlags[] = {{"shares_tiles", &KernelTiling::shares_tiles},
                                                                   {"splits_depth", &KernelTiling::splits_depth},
                                                                   {"adds_parts", &KernelTiling::adds_parts},
                                                                   {"accumulates", &KernelTiling::accumulates},
                                                                   {"swizzles", &KernelTiling::swizzles}};

bool differ_in_grids_alone(const ProductKernel& a, ProductKernel b) {
  b.tiling.cluster_m = a.tiling.cluster_m;
  b.tiling.cluster_n = a.tiling.cluster_n;
  b.tiling.grid_limit = a.tiling.grid_limit;
  return a.tiling == b.tiling && a.parameters_us == b.parameters_us && a.probes == b.probes;
}

/// But its clusters and the limit of its grid. What is as in most kernels is left out.
ordered_json to_json(const ProductKernel& kernel) {
  const KernelTiling& tiling = kernel.tiling;
  ordered_json json = {{"name", tiling.name}, {"tile", {tiling.tile_m, tiling.tile_n}}};
  if (tiling.resident != KernelTiling{}.resident) json["resident"] = tiling.resident;
  for (const auto& [key, member] : kFlags) {
    if (tiling.*member) json[key] = true;
  }
  json["probes"] = kernel.probes;
  json["parameters"] = ordered_json::array();
  for (const double parameter : kernel.parameters_us) json["parameters"].push_back(five_digits(parameter));
  return json;
}

/// Those that stand one after another and differ in their grids alone are one entry.
ordered_json to_json(const std::vector<ProductKernel>& kernels) {
  ordered_json all = ordered_json::array();
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (k == 0 || !differ_in_grids_alone(kernels[k - 1], kernels[k])) all.push_back(to_json(kernels[k]));
    const KernelTiling& tiling = kernels[k].tiling;
    all.back()["grids"].push_back({tiling.cluster_m, tiling.cluster_n, tiling.grid_limit});
  }
  return all;
}

std::pair<std::int64_t, std::int64_t> read_tile(const JsonPlace& place) {
  place.array();
  if (place.size() != 2) place.refuse("two whole numbers");
  return {place.at(std::size_t{0}).whole(1, kLargestTile), place.at(std::size_t{1}).whole(1, kLargestTile)};
}

/// One of each grid.
void read_kernels(const JsonPlace& place, std::vector<ProductKernel>& kernels) {
  if (!place.has("grids"))
    place.refuse("\"grids\", which older versions did not write: pdl-calibrate --from its samples fits it anew");
  place.object_of(Words{"name", "tile", "resident", "shares_tiles", "splits_depth", "adds_parts", "accumulates",
                        "swizzles", "probes", "parameters", "grids"});
  ProductKernel kernel;
  KernelTiling& tiling = kernel.tiling;
  tiling.name = place.at("name").text();
  std::tie(tiling.tile_m, tiling.tile_n) = read_tile(place.at("tile"));
  if (place.has("resident")) tiling.resident = place.at("resident").whole(1, kMostResident);
  for (const auto& [key, member] : kFlags) {
    if (place.has(key)) tiling.*member = place.at(key).boolean();
  }
  kernel.probes = place.at("probes").whole(0, kLargest);
  const JsonPlace parameters = place.at("parameters"), grids = place.at("grids");
  parameters.array();
  if (parameters.size() != kKernelTerms) parameters.refuse(std::to_string(kKernelTerms) + " numbers");
  for (std::size_t i = 0; i < kKernelTerms; ++i) kernel.parameters_us[i] = parameters.at(i).number(0, 1e12);
  grids.array();
  if (grids.size() == 0) grids.refuse("at least one");
  for (std::size_t g = 0; g < grids.size(); ++g) {
    const JsonPlace grid = grids.at(g);
    grid.array();
    if (grid.size() != 3) grid.refuse("two numbers of a cluster, and the most blocks of a launch or 0");
    tiling.cluster_m = grid.at(std::size_t{0}).whole(1, kLargestCluster);
    tiling.cluster_n = grid.at(std::size_t{1}).whole(1, kLargestCluster);
    tiling.grid_limit = grid.at(std::size_t{2}).whole(0, kMostBlocks);
    kernels.push_back(kernel);
  }
}

std::string read_word(const JsonPlace& place, const Words& known) {
  const std::string word = place.text();
  if (std::find(known.begin(), known.end(), word) == known.end()) place.refuse(list_words(known));
  return word;
}

/// And none twice.
template <typename Value>
bool ascending(const std::vector<Value>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
}

ProductChoices read_choices(const JsonPlace& place, const std::vector<KernelChoice>& known) {
  place.object_of(Words{"implementation", "operation", "dtype", "rows", "shapes"});
  ProductChoices choices;
  choices.kind = read_product_kind(place);
  const JsonPlace rows = place.at("rows"), shapes = place.at("shapes");
  rows.array();
  for (std::size_t r = 0; r < rows.size(); ++r) choices.rows.push_back(rows.at(r).whole(1, kLargest));
  if (choices.rows.empty() || !ascending(choices.rows)) rows.refuse("at least one, ascending");
  shapes.array();
  if (shapes.size() == 0) shapes.refuse("at least one");
  KernelIndices before;  // of the shape before
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const JsonPlace shape = shapes.at(s);
    shape.array();
    if (shape.size() != 3) shape.refuse("in, out and letters");
    choices.shapes.emplace_back(shape.at(std::size_t{0}).whole(1, kLargest),
                                shape.at(std::size_t{1}).whole(1, kLargest));
    const JsonPlace letters = shape.at(std::size_t{2});
    auto indices = read_choice_text(letters.text(), choices.rows.size(), known.size(), before);
    if (!indices || std::find(indices->begin(), indices->end(), std::nullopt) != indices->end())
      letters.refuse("letters of " + std::to_string(choices.rows.size()) + " of the " + std::to_string(known.size()) +
                     " splits");
    std::vector<KernelChoice>& of_shape = choices.of_shape.emplace_back();
    of_shape.reserve(indices->size());
    for (const std::optional<std::size_t>& index : *indices) of_shape.push_back(known[*index]);
    before = std::move(*indices);
  }
  if (!ascending(choices.shapes)) shapes.refuse("shapes in ascending order, each once");
  return choices;
}

ClockCurve read_clock(const JsonPlace& place) {
  place.object_of(Words{"dtype", "flops", "log_factor"});
  const std::optional<Dtype> dtype = find_dtype(place.at("dtype").text());
  if (!dtype) place.at("dtype").refuse("a data type");
  ClockCurve clock;
  clock.dtype = *dtype;
  const JsonPlace flops = place.at("flops"), factors = place.at("log_factor");
  flops.array();
  factors.array();
  if (flops.size() == 0 || factors.size() != flops.size()) factors.refuse("as many as flops, at least one");
  for (std::size_t i = 0; i < flops.size(); ++i) {
    clock.flops.push_back(flops.at(i).number(1, 1e30));
    clock.log_factor.push_back(factors.at(i).number(-10, 10));
  }
  if (!std::is_sorted(clock.flops.begin(), clock.flops.end())) flops.refuse("ascending numbers");
  return clock;
}

}  // namespace

void write_product_kind(const ProductKind& kind, ordered_json& object) {
  object["implementation"] = kind.implementation;
  object["operation"] = kind.operation;
  object["dtype"] = to_string(kind.dtype);
}

ProductKind read_product_kind(const JsonPlace& object) {
  const JsonPlace dtype = object.at("dtype");
  const std::optional<Dtype> known = find_dtype(dtype.text());
  if (!known) dtype.refuse("a data type");
  return {read_word(object.at("implementation"), {"autograd", "pipeline"}),
          read_word(object.at("operation"), {"forward", "backward_input", "backward_weight"}), *known};
}

ordered_json to_json(const ProductModel& model) {
  ordered_json json = {{"library", model.library},
                       {"asked_by", model.asked_by},
                       {"card", model.card},
                       {"multiprocessors", model.multiprocessors},
                       {"memory_bytes_per_ns", five_digits(model.memory_bytes_per_ns)}};
  json["kernels"] = to_json(model.kernels);
  json["clocks"] = ordered_json::array();
  for (const ClockCurve& clock : model.clocks) {
    json["clocks"].push_back({{"dtype", to_string(clock.dtype)}, {"flops", clock.flops}, {"log_factor", {}}});
    for (const double factor : clock.log_factor) json["clocks"].back()["log_factor"].push_back(five_digits(factor));
  }
  std::map<KernelChoice, std::size_t> index;
  for (const ProductChoices& choices : model.choices) {
    for (const auto& of_shape : choices.of_shape) {
      for (const KernelChoice& choice : of_shape) index.emplace(choice, 0);
    }
  }
  json["splits"] = ordered_json::array();
  for (auto& [choice, number] : index) {
    number = json["splits"].size();
    json["splits"].push_back({choice.kernel, choice.splits});
  }
  json["choices"] = ordered_json::array();
  for (const ProductChoices& choices : model.choices) {
    ordered_json of_kind;
    write_product_kind(choices.kind, of_kind);
    of_kind["rows"] = choices.rows;
    of_kind["shapes"] = ordered_json::array();
    KernelIndices before;
    for (std::size_t s = 0; s < choices.shapes.size(); ++s) {
      KernelIndices indices;
      for (const KernelChoice& choice : choices.of_shape[s]) indices.push_back(index.at(choice));
      of_kind["shapes"].push_back({choices.shapes[s].first, choices.shapes[s].second, choice_text(indices, before)});
      before = std::move(indices);
    }
    json["choices"].push_back(std::move(of_kind));
  }
  return json;
}

ProductModel product_model_from_json(const JsonPlace& place) {
  place.object_of(Words{"library", "asked_by", "card", "multiprocessors", "memory_bytes_per_ns", "kernels", "clocks",
                        "splits", "choices"});
  ProductModel model;
  model.library = place.at("library").text();
  model.asked_by = place.at("asked_by").text();
  model.card = place.at("card").text();
  model.multiprocessors = place.at("multiprocessors").whole(1, kLargest);
  model.memory_bytes_per_ns = place.at("memory_bytes_per_ns").number(0, 1e9);
  const JsonPlace clocks = place.at("clocks");
  clocks.array();
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    const ClockCurve clock = read_clock(clocks.at(i));
    for (const ClockCurve& other : model.clocks) {
      if (other.dtype == clock.dtype) clocks.at(i).refuse("each data type once");
    }
    model.clocks.push_back(clock);
  }
  const JsonPlace kernels = place.at("kernels"), splits = place.at("splits"), choices = place.at("choices");
  kernels.array();
  if (kernels.size() == 0) kernels.refuse("at least one");
  for (std::size_t i = 0; i < kernels.size(); ++i) read_kernels(kernels.at(i), model.kernels);
  splits.array();
  std::vector<KernelChoice> known;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    const JsonPlace pair = splits.at(i);
    pair.array();
    if (pair.size() != 2) pair.refuse("a kernel and its splits");
    known.push_back({static_cast<std::size_t>(
                         pair.at(std::size_t{0}).whole(0, static_cast<std::int64_t>(model.kernels.size()) - 1)),
                     pair.at(std::size_t{1}).whole(1, kMostSplits)});
  }
  choices.array();
  for (std::size_t i = 0; i < choices.size(); ++i) model.choices.push_back(read_choices(choices.at(i), known));
  std::sort(model.choices.begin(), model.choices.end(), goes_before);
  const auto alike = [](const ProductChoices& a, const ProductChoices& b) { return !goes_before(a, b); };
  if (std::adjacent_find(model.choices.begin(), model.choices.end(), alike) != model.choices.end())
    choices.refuse("each kind of product once, under AMP once with odd rows");
  return model;
}

}  // namespace pdl
