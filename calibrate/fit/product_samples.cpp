#include "calibrate/fit/product_samples.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "sim/cost/choice_text.hpp"
#include "sim/cost/product_json.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/letters.hpp"

namespace pdl {
namespace {

using nlohmann::ordered_json;
using Words = std::vector<std::string>;

constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20, kMostSplits = std::int64_t{1} << 16;
ordered_json to_json(const ProductAnswers& answers) {
  ordered_json json;
  write_product_kind(answers.kind, json);
  json["ways"] = answers.ways;
  json["rows"] = answers.rows;
  json["shapes"] = ordered_json::array();
  KernelIndices before;
  for (std::size_t s = 0; s < answers.shapes.size(); ++s) {
    const std::string text = choice_text(answers.kernels[s], before);
    json["shapes"].push_back({{"in", answers.shapes[s].first}, {"out", answers.shapes[s].second}, {"kernels", text}});
    before = answers.kernels[s];
  }
  return json;
}

SeenKernel read_kernel(const JsonPlace& place) {
  place.object_of(Words{"name", "splits", "cluster", "resident", "blocks", "adds_parts"});
  SeenKernel kernel;
  kernel.name = place.at("name").text();
  kernel.splits = place.at("splits").whole(1, kMostSplits);
  const JsonPlace cluster = place.at("cluster");
  cluster.array();
  if (cluster.size() != 2) cluster.refuse("two whole numbers");
  kernel.cluster_x = cluster.at(std::size_t{0}).whole(1, 64);
  kernel.cluster_y = cluster.at(std::size_t{1}).whole(1, 64);
  kernel.resident = place.at("resident").whole(1, 1024);
  kernel.blocks = place.at("blocks").whole(1, kMostBlocks);
  kernel.adds_parts = place.at("adds_parts").boolean();
  return kernel;
}

ProductAnswers read_answers(const JsonPlace& place, std::size_t kernels) {
  place.object_of(Words{"implementation", "operation", "dtype", "ways", "rows", "shapes"});
  ProductAnswers answers;
  answers.kind = read_product_kind(place);
  answers.ways = place.at("ways").whole(1, 64);
  const JsonPlace rows = place.at("rows"), shapes = place.at("shapes");
  rows.array();
  for (std::size_t i = 0; i < rows.size(); ++i) answers.rows.push_back(rows.at(i).whole(1, kLargestSize));
  if (answers.rows.empty() ||
      std::adjacent_find(answers.rows.begin(), answers.rows.end(), std::greater_equal<>()) != answers.rows.end())
    rows.refuse("at least one, ascending");
  shapes.array();
  const std::size_t count = answers.rows.size() * static_cast<std::size_t>(answers.ways);
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const JsonPlace shape = shapes.at(s);
    shape.object_of(Words{"in", "out", "kernels"});
    answers.shapes.emplace_back(shape.at("in").whole(1, kLargestSize), shape.at("out").whole(1, kLargestSize));
    const JsonPlace text = shape.at("kernels");
    std::optional<KernelIndices> of_shape = read_choice_text(
        text.text(), count, kernels, answers.kernels.empty() ? KernelIndices{} : answers.kernels.back());
    if (!of_shape)
      text.refuse("letters of " + std::to_string(count) + " kernels of the list, which has " + std::to_string(kernels));
    answers.kernels.push_back(std::move(*of_shape));
  }
  return answers;
}

/// rows, in, out, kernel, blocks, and times.
ProductTiming read_timing(const ProductKind& kind, const JsonPlace& place, std::size_t kernels) {
  constexpr std::size_t kWhole = 5;
  place.array();
  if (place.size() <= kWhole) place.refuse("rows, in, out, kernel, blocks and at least one time");
  const auto whole = [&](std::size_t i, std::int64_t least, std::int64_t most) {
    return place.at(i).whole(least, most);
  };
  ProductTiming timing;
  timing.kind = kind;
  timing.size = {whole(0, 1, kLargestSize), whole(1, 1, kLargestSize), whole(2, 1, kLargestSize)};
  timing.kernel = static_cast<std::size_t>(whole(3, 0, static_cast<std::int64_t>(kernels) - 1));
  timing.blocks = whole(4, 1, kMostBlocks);
  for (std::size_t i = kWhole; i < place.size(); ++i) timing.values_us.push_back(place.at(i).number(0.01, 1e9));
  return timing;
}

void read_timings(const JsonPlace& place, std::size_t kernels, std::vector<ProductTiming>& timings) {
  place.object_of(Words{"implementation", "operation", "dtype", "sizes"});
  const ProductKind kind = read_product_kind(place);
  const JsonPlace sizes = place.at("sizes");
  sizes.array();
  for (std::size_t i = 0; i < sizes.size(); ++i) timings.push_back(read_timing(kind, sizes.at(i), kernels));
}

}  // namespace

void append(ProductSamples& all, const ProductSamples& more) {
  all.library = more.library;
  all.asked_by = more.asked_by;
  std::vector<std::size_t> now;  // by index in `more`
  for (const SeenKernel& kernel : more.kernels) {
    const auto same = [&](SeenKernel other) {
      other.blocks = kernel.blocks;
      return other == kernel;
    };
    const auto found = std::find_if(all.kernels.begin(), all.kernels.end(), same);
    now.push_back(static_cast<std::size_t>(found - all.kernels.begin()));
    if (found == all.kernels.end()) all.kernels.push_back(kernel);
    std::int64_t& most = all.kernels[now.back()].blocks;
    most = std::max(most, kernel.blocks);
  }
  for (ProductAnswers answers : more.answers) {
    for (auto& of_shape : answers.kernels) {
      for (auto& kernel : of_shape) {
        if (kernel) kernel = now[*kernel];
      }
    }
    all.answers.push_back(std::move(answers));
  }
  for (ProductTiming timing : more.timings) {
    timing.kernel = now[timing.kernel];
    all.timings.push_back(std::move(timing));
  }
}

ordered_json to_json(const ProductSamples& products) {
  ordered_json json = {{"library", products.library}, {"asked_by", products.asked_by}};
  for (const char* list : {"kernels", "answers", "timings"}) json[list] = ordered_json::array();
  for (const SeenKernel& kernel : products.kernels) {
    json["kernels"].push_back({{"name", kernel.name},
                               {"splits", kernel.splits},
                               {"cluster", {kernel.cluster_x, kernel.cluster_y}},
                               {"resident", kernel.resident},
                               {"blocks", kernel.blocks},
                               {"adds_parts", kernel.adds_parts}});
  }
  for (const ProductAnswers& answers : products.answers) json["answers"].push_back(to_json(answers));
  std::map<ProductKind, ordered_json> by_kind;
  for (const ProductTiming& timing : products.timings) {
    ordered_json size = {timing.size.rows, timing.size.in, timing.size.out, timing.kernel, timing.blocks};
    for (const double us : timing.values_us) size.push_back(us);
    by_kind[timing.kind].push_back(std::move(size));
  }
  for (auto& [kind, sizes] : by_kind) {
    ordered_json of_kind;
    write_product_kind(kind, of_kind);
    of_kind["sizes"] = std::move(sizes);
    json["timings"].push_back(std::move(of_kind));
  }
  return json;
}

ProductSamples product_samples_from_json(const JsonPlace& place) {
  place.object_of(Words{"library", "asked_by", "kernels", "answers", "timings"});
  ProductSamples products;
  products.library = place.at("library").text();
  products.asked_by = place.at("asked_by").text();
  const JsonPlace kernels = place.at("kernels"), answers = place.at("answers"), timings = place.at("timings");
  kernels.array();
  if (kernels.size() > kMostIndices) kernels.refuse("at most " + std::to_string(kMostIndices) + " kernels");
  for (std::size_t i = 0; i < kernels.size(); ++i) products.kernels.push_back(read_kernel(kernels.at(i)));
  answers.array();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    products.answers.push_back(read_answers(answers.at(i), products.kernels.size()));
    const ProductAnswers& now = products.answers.back();
    for (std::size_t j = 0; j < i; ++j) {
      const ProductAnswers& other = products.answers[j];
      if (other.kind == now.kind && other.rows.front() % 2 == now.rows.front() % 2)
        answers.at(i).refuse("each kind of product once, under AMP once with odd rows");
    }
  }
  timings.array();
  for (std::size_t i = 0; i < timings.size(); ++i)
    read_timings(timings.at(i), products.kernels.size(), products.timings);
  return products;
}

}  // namespace pdl
