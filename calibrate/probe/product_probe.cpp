#include "calibrate/probe/product_probe.hpp"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>

#include "calibrate/fit/product_fit.hpp"
#include "calibrate/fit/product_samples.hpp"
#include "calibrate/probe/device_timer.hpp"
#include "calibrate/probe/kernel_capture.hpp"
#include "calibrate/probe/rows_in_steps.hpp"
#include "runtime/comm/rank_threads.hpp"
#include "runtime/comm/waiting.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/model/matrix_products.hpp"
#include "sim/cost/kernel_name.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cublasLt.h>
#endif

namespace pdl {

#if PDL_CUDA

namespace {

constexpr std::int64_t kWidthStep = 64;
constexpr std::int64_t kLargestWidth = 12288;
constexpr std::int64_t kMostRows = 8192;
constexpr std::int64_t kSets = 2;  // of operands of the largest size; smaller ones take turns more often
constexpr std::int64_t kTurns = 4;
constexpr const char* kOperations[] = {"forward", "backward_input", "backward_weight"};

/// What is asked of one kind of product.
struct Extent {
  std::vector<std::int64_t> rows;
  /// Where two rows have the same kernels, so have those between them, which are not asked.
  bool in_steps = false;
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes;
};

struct Effort {
  std::size_t sizes = 0;    // that are timed
  double most_flops = 0;    // of one product
  double flops_per_us = 0;  // about, for how often a product is repeated
  double warm_us = 0;       // before the first value
  double value_us = 0;      // of a value
  bool rests = false;       // as long as it works: a card at its power limit would lower its clock
};

Effort effort_of(Dtype dtype, const std::string& implementation) {
  const double scale = 1e6;
  if (dtype == Dtype::fp32) {
    if (implementation == "pipeline") return {200, 2.5e11, 45 * scale, 0, 700};
    return {500, 7e11, 45 * scale, 0, 700};
  }
  if (implementation == "pipeline") return {200, 3e12, 350 * scale, 1000, 2000, true};
  if (dtype == Dtype::tf32) return {400, 3e12, 350 * scale, 1000, 2000, true};
  return {dtype == Dtype::amp_bf16 ? std::size_t{400} : std::size_t{350}, 3e12, 600 * scale, 1000, 2000, true};
}

/// From 8 on, a step apart: up to each of these rows.
std::vector<std::int64_t> rows_in(const std::vector<std::pair<std::int64_t, std::int64_t>>& up_to_and_step) {
  std::vector<std::int64_t> rows = {8};
  for (const auto& [most, step] : up_to_and_step) {
    while (rows.back() < most) rows.push_back(rows.back() + step);
  }
  return rows;
}

/// Kernels change where the rows fill another tile, whose height is a multiple of 8, and mostly of 16 or more where
/// there are many rows.
std::vector<std::int64_t> rows_of_tiles() {
  return rows_in({{1024, 8}, {2048, 16}, {4096, 32}, {kMostRows, 64}});
}

/// Of products under AMP, whose kernel is another at nearly each of these rows.
std::vector<std::int64_t> aligned_rows() {
  return rows_in({{1024, 8}, {2048, 32}, {4096, 64}, {kMostRows, 256}});
}

/// Sixteen to each power of two: of products of several ways, each of which takes time to ask for.
std::vector<std::int64_t> sixteen_an_octave() {
  return rows_in({{64, 4}, {128, 8}, {256, 16}, {512, 32}, {1024, 64}, {2048, 128}, {4096, 256}, {kMostRows, 512}});
}

std::vector<std::pair<std::int64_t, std::int64_t>> shapes_of(const std::vector<std::int64_t>& not_square) {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (std::int64_t width = kWidthStep; width <= kLargestWidth; width += kWidthStep) shapes.emplace(width, width);
  for (const std::int64_t in : not_square) {
    for (const std::int64_t out : not_square) shapes.emplace(in, out);
  }
  return {shapes.begin(), shapes.end()};
}

/// Under AMP also of rows that are no multiple of 8 (ProductChoices).
std::vector<Extent> extents_of(const std::string& implementation, Dtype dtype) {
  if (dtype == Dtype::fp32 && implementation == "pipeline")
    return {{sixteen_an_octave(), false, shapes_of({512, 1024, 2048, 3072, 4096, 6144, 8192, 12288})}};
  const std::vector<std::int64_t> widths = {256,  512,  768,  1024, 1536, 2048, 2560,  3072,
                                            4096, 5120, 6144, 7168, 8192, 9216, 10240, 12288};
  if (!is_amp(dtype)) return {{rows_of_tiles(), true, shapes_of(widths)}};
  std::vector<std::int64_t> below = rows_of_tiles();
  for (std::int64_t& rows : below) --rows;
  return {{aligned_rows(), false, shapes_of(widths)}, {below, true, shapes_of(widths)}};
}

double flops(const ProductSize& size) {
  return 2.0 * static_cast<double>(size.rows) * static_cast<double>(size.in) * static_cast<double>(size.out);
}

/// Widths from 512 on and rows from 16 on, both even in their logarithms; the most expensive first. Half of them have
/// rows that are a multiple of 8.
std::vector<ProductSize> drawn_sizes(const Effort& effort, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) / 9007199254740992.0; };
  const auto between = [&](double least, double most) {
    return std::exp(std::log(least) + uniform() * std::log(most / least));
  };
  const auto width = [&] {
    return std::min<std::int64_t>(kLargestWidth, kWidthStep * std::llround(between(512, kLargestWidth) / kWidthStep));
  };
  std::vector<ProductSize> sizes;
  while (sizes.size() < effort.sizes) {
    ProductSize size{std::llround(between(16, kMostRows)), width(), 0};
    size.out = uniform() < 0.6 ? size.in : width();
    if (sizes.size() % 2 == 0) size.rows = (size.rows + 7) / 8 * 8;
    if (flops(size) <= effort.most_flops) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end(), [](const ProductSize& a, const ProductSize& b) {
    return std::tuple(flops(b), b) < std::tuple(flops(a), a);
  });
  return sizes;
}

/// The operands of products of any size: views of a few large tensors.
class Operands {
 public:
  Operands(Dtype dtype, c10::Device device, std::uint64_t seed) {
    const at::ScalarType type = dtype == Dtype::amp_bf16   ? at::kBFloat16
                                : dtype == Dtype::amp_fp16 ? at::kHalf
                                                           : at::kFloat;
    const auto options = at::TensorOptions().device(device).dtype(type);
    at::Generator(at::globalContext().defaultGenerator(device)).set_current_seed(seed);
    const std::int64_t square = kLargestWidth * kLargestWidth, tall = kMostRows * kLargestWidth;
    weights_ = at::empty({kSets * square}, options).uniform_(-0.01, 0.01);
    activations_ = at::empty({kSets * tall}, options).normal_().relu_();
    gradients_ = at::empty({kSets * tall}, options).normal_();
    gradients_.mul_(at::empty({kSets * tall}, options).normal_().gt_(0));
    results_ = at::empty({square}, options);
    bias_ = at::zeros({kLargestWidth}, options);
  }

  struct Product {
    at::Tensor out, a, b, bias;
    bool accumulates = false;
  };

  /// `turn`: which of the sets, so that a series does not find its operands in the cache.
  Product product(const std::string& operation, const ProductSize& size, std::int64_t turn) const {
    const at::Tensor x = view(activations_, size.rows, size.in, turn), dz = view(gradients_, size.rows, size.out, turn);
    const at::Tensor w = view(weights_, size.out, size.in, turn);
    if (operation == "forward")
      return {view(results_, size.rows, size.out, 0), x, w.t(), bias_.narrow(0, 0, size.out), false};
    if (operation == "backward_input") return {view(results_, size.rows, size.in, 0), dz, w, {}, false};
    return {view(results_, size.out, size.in, 0), dz.t(), x, {}, true};
  }

 private:
  static at::Tensor view(const at::Tensor& flat, std::int64_t rows, std::int64_t columns, std::int64_t turn) {
    const std::int64_t numbers = rows * columns, sets = std::min(kTurns, flat.numel() / numbers);
    return flat.narrow(0, turn % sets * numbers, numbers).view({rows, columns});
  }

  at::Tensor weights_, activations_, gradients_, results_, bias_;
};

/// A product in one of its ways.
class ProductCalls {
 public:
  ProductCalls(std::string implementation, const Operands& operands, c10::Device device)
      : pipeline_(implementation == "pipeline"), operands_(operands), products_(device) {}

  /// How many there are; run() is of the size asked for last.
  std::size_t ways(const std::string& operation, const ProductSize& size) {
    for (std::int64_t turn = 0; turn < kTurns; ++turn)
      turns_[static_cast<std::size_t>(turn)] = operands_.product(operation, size, turn);
    return pipeline_ ? products_.ways(as_matrix_product(turns_[0])) : 1;
  }

  /// False: there is no such way for this product.
  bool run(std::size_t way, std::int64_t turn) {
    Operands::Product& p = turns_[static_cast<std::size_t>(turn % kTurns)];
    if (pipeline_) return products_.run_way(as_matrix_product(p), way);
    if (p.bias.defined()) {
      at::addmm_out(p.out, p.bias, p.a, p.b);
    } else {
      at::mm_out(p.out, p.a, p.b);
    }
    return true;
  }

 private:
  static MatrixProduct as_matrix_product(Operands::Product& p) {
    return {p.out, p.a, p.b, 1, p.accumulates ? 1.0 : 0.0, p.bias};
  }

  bool pipeline_;
  const Operands& operands_;
  MatrixProducts products_;
  std::array<Operands::Product, kTurns> turns_;
};

/// All kernels that were seen, each once. Several threads may ask.
class KernelTable {
 public:
  explicit KernelTable(std::vector<SeenKernel>& kernels) : kernels_(kernels) {}

  /// Of the kernel that multiplies; nothing where there is none. `blocks`: of this launch.
  std::optional<std::size_t> index(const std::vector<CapturedKernel>& captured, const ProductKind& kind,
                                   const ProductSize& size, std::int64_t& blocks) {
    const auto main = std::find_if(captured.begin(), captured.end(),
                                   [](const CapturedKernel& kernel) { return is_product_kernel(kernel.name); });
    if (main == captured.end()) return std::nullopt;
    SeenKernel seen;
    seen.name = main->name;
    seen.splits = main->grid_z;
    seen.cluster_x = main->cluster_x;
    seen.cluster_y = main->cluster_y;
    seen.resident = main->resident;
    seen.adds_parts = std::any_of(captured.begin(), captured.end(), [](const CapturedKernel& kernel) {
      return kernel.name.find("splitKreduce") != kernel.name.npos || kernel.name.find("split_k") != kernel.name.npos;
    });
    blocks = main->blocks();
    if (seen.splits == 1 && main->name.find("splitK") != main->name.npos) {
      // In the grid's other directions: as many blocks a tile.
      KernelTiling tiling = tiling_of(seen, {});
      tiling.grid_limit = 0;
      const std::int64_t tiles = launched_blocks(tiling, 1, product_shape(kind, size));
      seen.splits = std::max<std::int64_t>(1, (blocks + tiles / 2) / tiles);
    }
    const auto key = std::tuple(seen.name, seen.splits, seen.cluster_x, seen.cluster_y, seen.resident, seen.adds_parts);
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = known_.emplace(key, kernels_.size());
    if (is_new) kernels_.push_back(seen);
    std::int64_t& most = kernels_[found->second].blocks;
    most = std::max(most, blocks);
    return found->second;
  }

 private:
  using Key = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
  std::vector<SeenKernel>& kernels_;
  std::map<Key, std::size_t> known_;
  std::mutex mutex_;
};

struct Probing {
  ProductCalls& calls;
  KernelTable& kernels;
  ProductSamples& samples;
  ProductKind kind;
};

/// Of one implementation in one data type.
struct Asking {
  std::string implementation;
  Dtype dtype;
  const Operands& operands;
  c10::Device device;
  KernelTable& kernels;
  std::atomic<std::int64_t>& not_captured;  // products whose capture failed
};

using Ways = std::vector<std::optional<std::size_t>>;  // kernel of each

Ways ask_ways(const Asking& asking, ProductCalls& calls, const ProductKind& kind, const ProductSize& size) {
  Ways kernels;
  const std::size_t ways = calls.ways(kind.operation, size);
  for (std::size_t way = 0; way < ways; ++way) {
    bool ran = true;
    const auto captured = capture_kernels([&] { ran = calls.run(way, 0); });
    if (!captured) ++asking.not_captured;
    std::int64_t blocks = 0;
    kernels.push_back(captured && ran ? asking.kernels.index(*captured, kind, size, blocks) : std::nullopt);
  }
  return kernels;
}

/// The first call of a thread, and of a kernel, takes what no capture may.
void warm_up(ProductCalls& calls, const std::string& operation) {
  for (const ProductSize& warm : {ProductSize{64, 512, 512}, ProductSize{2048, 4096, 4096}}) {
    for (std::size_t way = 0, ways = calls.ways(operation, warm); way < ways; ++way) calls.run(way, 0);
  }
}

/// By row. `ask_row`: of the row of that index.
std::vector<Ways> ask_rows(const Extent& extent, const std::function<Ways(std::size_t row)>& ask_row) {
  std::map<std::size_t, Ways> known;
  const auto ask = [&](std::size_t row) -> const Ways& {
    const auto found = known.find(row);
    return found != known.end() ? found->second : known.emplace(row, ask_row(row)).first->second;
  };
  std::vector<Ways> of_shape;
  if (extent.in_steps) {
    const auto same = [&](std::size_t a, std::size_t b) { return ask(a) == ask(b); };
    for (const std::size_t row : rows_in_steps(extent.rows.size(), same)) of_shape.push_back(ask(row));
  } else {
    for (std::size_t row = 0; row < extent.rows.size(); ++row) of_shape.push_back(ask(row));
  }
  return of_shape;
}

/// As many as find work: a library's choice takes the host .05 to .3 ms (H200, cuBLAS 13.1), and more than 14 threads
/// gain nothing.
int asking_threads() {
  constexpr int kMost = 14;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, kMost);
}

/// Of an operation and one of its extents.
ProductAnswers answers_of(const ProductKind& kind, const Extent& extent, std::vector<std::vector<Ways>> of_shapes) {
  ProductAnswers answers;
  answers.kind = kind;
  answers.rows = extent.rows;
  answers.shapes = extent.shapes;
  for (const std::vector<Ways>& of_shape : of_shapes) {
    for (const Ways& ways : of_shape) answers.ways = std::max(answers.ways, static_cast<std::int64_t>(ways.size()));
  }
  for (std::vector<Ways>& of_shape : of_shapes) {
    auto& flat = answers.kernels.emplace_back();
    for (Ways& ways : of_shape) {
      ways.resize(static_cast<std::size_t>(answers.ways));
      flat.insert(flat.end(), ways.begin(), ways.end());
    }
  }
  return answers;
}

/// In several threads, each with handles and a stream of its own.
std::vector<ProductAnswers> ask_library(const Asking& asking, const std::function<void(double)>& progress) {
  struct Lattice {
    ProductKind kind;
    Extent extent;
    std::vector<std::vector<Ways>> of_shapes;
  };
  std::vector<Lattice> lattices;
  std::vector<std::pair<std::size_t, std::size_t>> all;  // a lattice, a shape
  for (const char* operation : kOperations) {
    for (Extent& extent : extents_of(asking.implementation, asking.dtype)) {
      for (std::size_t s = 0; s < extent.shapes.size(); ++s) all.emplace_back(lattices.size(), s);
      lattices.push_back({{asking.implementation, operation, asking.dtype}, std::move(extent), {}});
      lattices.back().of_shapes.resize(lattices.back().extent.shapes.size());
    }
  }
  std::atomic<std::size_t> next = 0;
  on_rank_threads(asking_threads(), "asking which kernels " + to_string(asking.dtype) + " takes", [&](int thread) {
    const c10::InferenceMode without_autograd;
    const c10::cuda::CUDAStreamGuard on_stream(c10::cuda::getStreamFromPool(true, asking.device.index()));
    ProductCalls calls(asking.implementation, asking.operands, asking.device);
    for (const char* operation : kOperations) warm_up(calls, operation);
    at::cuda::getCurrentCUDAStream().synchronize();
    for (std::size_t i = next++; i < all.size(); i = next++) {
      Lattice& lattice = lattices[all[i].first];
      const auto [in, out] = lattice.extent.shapes[all[i].second];
      lattice.of_shapes[all[i].second] = ask_rows(lattice.extent, [&, in = in, out = out](std::size_t row) {
        return ask_ways(asking, calls, lattice.kind, {lattice.extent.rows[row], in, out});
      });
      Waiting::renew();
      if (thread == 0) progress(static_cast<double>(i) / static_cast<double>(all.size()));
    }
  });
  std::vector<ProductAnswers> answers;
  for (Lattice& lattice : lattices)
    answers.push_back(answers_of(lattice.kind, lattice.extent, std::move(lattice.of_shapes)));
  return answers;
}

constexpr int kValues = 2;

/// Values of one way of one product, which the device is still at.
struct Pending {
  std::size_t timing = 0;  // index into ProductSamples::timings
  int calls = 1;
  std::array<at::cuda::CUDAEvent, kValues + 1> events{at::cuda::CUDAEvent(cudaEventDefault),
                                                      at::cuda::CUDAEvent(cudaEventDefault),
                                                      at::cuda::CUDAEvent(cudaEventDefault)};
};

void launch_timed(Probing& probing, const ProductSize& size, const Effort& effort, std::size_t way,
                  std::vector<Pending>& pending) {
  constexpr double kShortest_us = 5;
  constexpr double kIssue_us = 12;  // of a call, at most: a device that is faster must be held
  constexpr int kMostCalls = 64;
  std::int64_t blocks = 0;
  bool ran = true;
  const auto captured = capture_kernels([&] { ran = probing.calls.run(way, 0); });
  const auto kernel = captured && ran ? probing.kernels.index(*captured, probing.kind, size, blocks) : std::nullopt;
  if (!kernel) return;
  const double once_us = std::max(kShortest_us, flops(size) / effort.flops_per_us);
  const auto calls_in = [&](double us) { return std::clamp(static_cast<int>(us / once_us), 2, kMostCalls); };
  const int warm = effort.warm_us > 0 ? calls_in(effort.warm_us) : 1, calls = calls_in(effort.value_us);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const double us_a_call = std::max(once_us < 3 * kIssue_us ? kIssue_us : 0, effort.rests ? once_us : 0);
  if (us_a_call > 0) hold_current_stream(std::llround((warm + kValues * calls) * us_a_call * 1e3));
  for (int call = 0; call < warm; ++call) probing.calls.run(way, call);
  Pending& series = pending.emplace_back();
  series.timing = probing.samples.timings.size();
  series.calls = calls;
  series.events[0].record(stream);
  for (int value = 0; value < kValues; ++value) {
    for (int call = 0; call < calls; ++call) probing.calls.run(way, call);
    series.events[static_cast<std::size_t>(value) + 1].record(stream);
  }
  probing.samples.timings.push_back({probing.kind, size, *kernel, blocks, {}});
}

void collect(std::vector<Pending>& pending, ProductSamples& samples) {
  at::cuda::getCurrentCUDAStream().synchronize();
  Waiting::renew();
  for (Pending& series : pending) {
    for (std::size_t value = 0; value < kValues; ++value) {
      const double ms = static_cast<double>(series.events[value].elapsed_time(series.events[value + 1]));
      samples.timings[series.timing].values_us.push_back(std::round(ms * 1e6 / series.calls) / 1e3);
    }
  }
  pending.clear();
}

std::string library_version() {
  const std::size_t version = cublasLtGetVersion();
  return "cuBLAS " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

using Note = std::function<void(const std::string&)>;

ProductSamples probe_dtype(Dtype dtype, const RuntimeOptions& runtime, const Note& note, const Progress& progress) {
  const c10::InferenceMode without_autograd;
  const c10::Device device = device_of(runtime, 0);
  const c10::cuda::CUDAStreamGuard on_stream(c10::cuda::getStreamFromPool(true, device.index()));
  at::globalContext().setAllowTF32CuBLAS(dtype == Dtype::tf32);
  ProductSamples samples;
  samples.library = library_version();
  samples.asked_by = "stream capture";
  KernelTable kernels(samples.kernels);
  const Operands operands(dtype, device, runtime.seed);
  std::atomic<std::int64_t> not_captured = 0;
  std::vector<std::string> implementations = {"autograd"};
  if (!is_amp(dtype)) implementations.push_back("pipeline");  // autocast is not in a pipeline's stages
  double before = 0;
  for (const std::string& implementation : implementations) {
    const auto report = [&](double fraction, const std::string& what) {
      progress(before + fraction / static_cast<double>(implementations.size()), what);
    };
    const Asking asking{implementation, dtype, operands, device, kernels, not_captured};
    for (ProductAnswers& answers : ask_library(asking, [&](double fraction) {
           report(0.4 * fraction, "which kernels " + implementation + " products " + to_string(dtype) + " take");
         }))
      samples.answers.push_back(std::move(answers));
    ProductCalls calls(implementation, operands, device);
    for (const char* operation : kOperations) warm_up(calls, operation);
    const Effort effort = effort_of(dtype, implementation);
    std::vector<Pending> pending;
    double done = 0;
    for (const ProductSize& size : drawn_sizes(effort, runtime.seed + 1)) {
      for (const char* operation : kOperations) {
        Probing probing{calls, kernels, samples, {implementation, operation, dtype}};
        const std::size_t ways = calls.ways(operation, size);
        for (std::size_t way = 0; way < ways; ++way) launch_timed(probing, size, effort, way, pending);
      }
      done += 1;
      if (pending.size() < 40) continue;
      collect(pending, samples);
      report(0.4 + 0.6 * done / static_cast<double>(effort.sizes),
             "products " + implementation + " " + to_string(dtype));
    }
    collect(pending, samples);
    before += 1 / static_cast<double>(implementations.size());
  }
  at::globalContext().setAllowTF32CuBLAS(false);
  if (not_captured > 0 && note)
    note("products " + to_string(dtype) + ": " + std::to_string(not_captured) +
         " captures failed, so shapes are missing among those that the library was asked for");
  return samples;
}

}  // namespace

std::vector<ProbePart> product_parts(const ProbeOptions& options, const RuntimeOptions& runtime) {
  std::vector<ProbePart> parts;
  if (runtime.device != DeviceKind::cuda) return parts;
  for (const Dtype dtype : options.dtypes) {
    const double seconds = dtype == Dtype::fp32 ? 25 : 14;
    parts.push_back({"products " + to_string(dtype), seconds,
                     [=, note = options.note](const Collect& collect, const Progress& progress) {
                       collect(probe_dtype(dtype, runtime, note, progress));
                     }});
  }
  return parts;
}

#else

std::vector<ProbePart> product_parts(const ProbeOptions&, const RuntimeOptions&) {
  return {};
}

#endif

}  // namespace pdl
