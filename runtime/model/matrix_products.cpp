#include "runtime/model/matrix_products.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "runtime/device/stream_time.hpp"
#include "sim/io/error.hpp"

#if PDL_CUDA
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <cublasLt.h>
#endif

namespace pdl {
namespace {

void run_by_libtorch(const MatrixProduct& p) {
  if (!p.bias.defined()) {
    if (p.alpha == 1 && p.beta == 0) {
      at::mm_out(p.out, p.a, p.b);
    } else {
      at::addmm_out(p.out, p.out, p.a, p.b, p.beta, p.alpha);
    }
  } else if (p.out.is_cuda() && p.relu) {
    at::_addmm_activation_out(p.out, p.bias, p.a, p.b);
  } else {
    at::addmm_out(p.out, p.bias, p.a, p.b);
    if (p.relu) p.out.relu_();
  }
}

}  // namespace

#if PDL_CUDA

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // as LibTorch gives cuBLAS on this generation of cards
constexpr int kProposals = 8;
constexpr double kLeastGain = 0.99;

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw CannotRun(std::string(what) + ": " + cublasLtGetStatusString(status));
}

/// Everything that a choice depends on.
struct Key {
  std::int64_t rows, inner, columns;
  bool a_transposed, b_transposed, accumulates, has_bias, relu;
  auto operator<=>(const Key&) const = default;
};

bool is_transposed(const at::Tensor& matrix) {
  return matrix.stride(0) == 1 && matrix.stride(1) != 1;
}

Key key_of(const MatrixProduct& p) {
  return {p.out.size(0),      p.a.size(1), p.out.size(1),    is_transposed(p.a),
          is_transposed(p.b), p.beta != 0, p.bias.defined(), p.relu};
}

/// A product as cuBLASLt takes it. Its matrices are column-major: a row-major matrix is its own transpose, so
/// out^T = b^T a^T is what is computed, with b first.
class LtProduct {
 public:
  explicit LtProduct(const Key& key) {
    check(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, key.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, key.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (key.has_bias)
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, key.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
    first_ = layout(key.b_transposed ? key.inner : key.columns, key.b_transposed ? key.columns : key.inner);
    second_ = layout(key.a_transposed ? key.rows : key.inner, key.a_transposed ? key.inner : key.rows);
    out_ = layout(key.columns, key.rows);
  }
  ~LtProduct() {
    cublasLtMatrixLayoutDestroy(first_);
    cublasLtMatrixLayoutDestroy(second_);
    cublasLtMatrixLayoutDestroy(out_);
    cublasLtMatmulDescDestroy(description_);
  }
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  std::vector<cublasLtMatmulAlgo_t> proposals(cublasLtHandle_t handle) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                                         sizeof kWorkspaceBytes);
    std::array<cublasLtMatmulHeuristicResult_t, kProposals> results{};
    int found = 0;
    cublasLtMatmulAlgoGetHeuristic(handle, description_, first_, second_, out_, out_, preference, kProposals,
                                   results.data(), &found);
    cublasLtMatmulPreferenceDestroy(preference);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < found; ++i) {
      if (results[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
        algorithms.push_back(results[static_cast<std::size_t>(i)].algo);
    }
    return algorithms;
  }

  cublasStatus_t run(cublasLtHandle_t handle, const MatrixProduct& p, const cublasLtMatmulAlgo_t& algorithm,
                     void* workspace) {
    const auto alpha = static_cast<float>(p.alpha), beta = static_cast<float>(p.beta);
    if (p.bias.defined()) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.const_data_ptr());
    return cublasLtMatmul(handle, description_, &alpha, p.b.const_data_ptr(), first_, p.a.const_data_ptr(), second_,
                          &beta, p.out.const_data_ptr(), out_, p.out.mutable_data_ptr(), out_, &algorithm, workspace,
                          kWorkspaceBytes, at::cuda::getCurrentCUDAStream());
  }

 private:
  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }
  static cublasLtMatrixLayout_t layout(std::int64_t rows, std::int64_t columns) {
    cublasLtMatrixLayout_t layout = nullptr;
    check(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), rows),
          "cublasLtMatrixLayoutCreate");
    return layout;
  }

  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, out_ = nullptr;
};

/// The choices of the process: nothing for a shape that LibTorch's call runs best.
std::mutex choices_mutex;
std::map<Key, std::optional<cublasLtMatmulAlgo_t>> choices;

}  // namespace

struct MatrixProducts::Ways {
  struct Way {
    LtProduct product;
    cublasLtMatmulAlgo_t algorithm;
    Way(const Key& key, const cublasLtMatmulAlgo_t& chosen) : product(key), algorithm(chosen) {}
  };
  at::Tensor workspace;
  std::map<Key, std::unique_ptr<Way>> of_key;  // null: LibTorch's call
  std::vector<std::unique_ptr<Way>> asked;     // of the product that was asked for last

  std::optional<cublasLtMatmulAlgo_t> choose(const MatrixProduct& p, const Key& key) {
    const cublasLtHandle_t handle = at::cuda::getCurrentCUDABlasLtHandle();
    LtProduct product(key);
    std::optional<cublasLtMatmulAlgo_t> best;
    double least_ms = kLeastGain * stream_time_ms([&] { run_by_libtorch(p); });
    for (const cublasLtMatmulAlgo_t& algorithm : product.proposals(handle)) {
      if (product.run(handle, p, algorithm, workspace.mutable_data_ptr()) != CUBLAS_STATUS_SUCCESS) continue;
      const double ms = stream_time_ms([&] { product.run(handle, p, algorithm, workspace.mutable_data_ptr()); });
      if (ms >= least_ms) continue;
      least_ms = ms;
      best = algorithm;
    }
    return best;
  }
};

MatrixProducts::MatrixProducts(at::Device device, Dtype dtype) {
  if (!device.is_cuda() || is_amp(dtype) || at::globalContext().allowTF32CuBLAS()) return;
  ways_ = std::make_unique<Ways>();
  ways_->workspace =
      at::empty({static_cast<std::int64_t>(kWorkspaceBytes)}, at::TensorOptions().device(device).dtype(at::kByte));
}

MatrixProducts::~MatrixProducts() = default;

void MatrixProducts::tune(const MatrixProduct& p) {
  if (!ways_) return;
  const Key key = key_of(p);
  if (ways_->of_key.contains(key)) return;
  const std::lock_guard lock(choices_mutex);
  auto choice = choices.find(key);
  if (choice == choices.end()) choice = choices.emplace(key, ways_->choose(p, key)).first;
  ways_->of_key[key] = choice->second ? std::make_unique<Ways::Way>(key, *choice->second) : nullptr;
}

void MatrixProducts::run(const MatrixProduct& p) {
  if (!ways_) return run_by_libtorch(p);
  const auto way = ways_->of_key.find(key_of(p));
  if (way == ways_->of_key.end() || !way->second) return run_by_libtorch(p);
  check(way->second->product.run(at::cuda::getCurrentCUDABlasLtHandle(), p, way->second->algorithm,
                                 ways_->workspace.mutable_data_ptr()),
        "cublasLtMatmul");
}

std::size_t MatrixProducts::ways(const MatrixProduct& p) {
  if (!ways_) return 1;
  const Key key = key_of(p);
  ways_->asked.clear();
  for (const cublasLtMatmulAlgo_t& algorithm : LtProduct(key).proposals(at::cuda::getCurrentCUDABlasLtHandle()))
    ways_->asked.push_back(std::make_unique<Ways::Way>(key, algorithm));
  return 1 + ways_->asked.size();
}

bool MatrixProducts::run_way(const MatrixProduct& p, std::size_t way) {
  if (way == 0) {
    run_by_libtorch(p);
    return true;
  }
  Ways::Way& asked = *ways_->asked[way - 1];
  return asked.product.run(at::cuda::getCurrentCUDABlasLtHandle(), p, asked.algorithm,
                           ways_->workspace.mutable_data_ptr()) == CUBLAS_STATUS_SUCCESS;
}

#else

struct MatrixProducts::Ways {};
MatrixProducts::MatrixProducts(at::Device, Dtype) {}
MatrixProducts::~MatrixProducts() = default;
void MatrixProducts::tune(const MatrixProduct&) {}
void MatrixProducts::run(const MatrixProduct& product) {
  run_by_libtorch(product);
}
std::size_t MatrixProducts::ways(const MatrixProduct&) {
  return 1;
}
bool MatrixProducts::run_way(const MatrixProduct& product, std::size_t) {
  run_by_libtorch(product);
  return true;
}

#endif

}  // namespace pdl
