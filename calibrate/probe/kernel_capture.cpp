#include "calibrate/probe/kernel_capture.hpp"

#include <map>
#include <tuple>

#if PDL_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#endif

namespace pdl {

#if PDL_CUDA

namespace {

/// The driver's calls; null where the driver has none of that name.
struct Driver {
  PFN_cuGraphKernelNodeGetParams_v12000 get_parameters = nullptr;
  PFN_cuGraphKernelNodeGetAttribute_v11000 get_attribute = nullptr;
  PFN_cuFuncGetName_v12030 function_name = nullptr;
  PFN_cuKernelGetFunction_v12000 function_of = nullptr;
  PFN_cuFuncGetAttribute_v2020 function_attribute = nullptr;
  PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050 occupancy = nullptr;
  bool complete = false;

  Driver() {
    complete = find("cuGraphKernelNodeGetParams", 12000, get_parameters) &&
               find("cuGraphKernelNodeGetAttribute", 11000, get_attribute) &&
               find("cuFuncGetName", 12030, function_name) && find("cuKernelGetFunction", 12000, function_of) &&
               find("cuFuncGetAttribute", 2020, function_attribute) &&
               find("cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, occupancy);
  }

 private:
  template <typename Function>
  static bool find(const char* name, unsigned version, Function& function) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult result{};
    if (cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &result) != cudaSuccess)
      return false;
    function = reinterpret_cast<Function>(address);
    return result == cudaDriverEntryPointSuccess && address;
  }
};

const Driver& driver() {
  static const Driver calls;
  return calls;
}

/// Of a kernel as it was built; a launch may say its own.
std::int64_t required_cluster(CUfunction function, CUfunction_attribute attribute) {
  int width = 0;
  return driver().function_attribute(&width, attribute, function) == CUDA_SUCCESS && width > 0 ? width : 1;
}

std::optional<CapturedKernel> read_node(cudaGraphNode_t node) {
  CUDA_KERNEL_NODE_PARAMS parameters{};
  if (driver().get_parameters(node, &parameters) != CUDA_SUCCESS) return std::nullopt;
  CUfunction function = parameters.func;
  if (!function && driver().function_of(&function, parameters.kern) != CUDA_SUCCESS) return std::nullopt;
  const char* name = nullptr;
  if (driver().function_name(&name, function) != CUDA_SUCCESS || !name) return std::nullopt;
  CapturedKernel kernel;
  kernel.name = name;
  kernel.grid_x = parameters.gridDimX;
  kernel.grid_y = parameters.gridDimY;
  kernel.grid_z = parameters.gridDimZ;
  CUkernelNodeAttrValue cluster{};
  if (driver().get_attribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &cluster) == CUDA_SUCCESS &&
      cluster.clusterDim.x > 0) {
    kernel.cluster_x = cluster.clusterDim.x;
    kernel.cluster_y = cluster.clusterDim.y;
  } else {
    kernel.cluster_x = required_cluster(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
    kernel.cluster_y = required_cluster(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
  }
  int resident = 0;
  const int threads = static_cast<int>(parameters.blockDimX * parameters.blockDimY * parameters.blockDimZ);
  if (driver().occupancy(&resident, function, threads, parameters.sharedMemBytes) == CUDA_SUCCESS && resident > 0)
    kernel.resident = resident;
  return kernel;
}

std::optional<std::vector<CapturedKernel>> read_graph(cudaGraph_t graph) {
  std::size_t count = 0;
  if (cudaGraphGetNodes(graph, nullptr, &count) != cudaSuccess) return std::nullopt;
  std::vector<cudaGraphNode_t> nodes(count);
  if (cudaGraphGetNodes(graph, nodes.data(), &count) != cudaSuccess) return std::nullopt;
  std::vector<CapturedKernel> kernels;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    if (cudaGraphNodeGetType(node, &type) != cudaSuccess) return std::nullopt;
    if (type != cudaGraphNodeTypeKernel) continue;
    const std::optional<CapturedKernel> kernel = read_node(node);
    if (!kernel) return std::nullopt;
    kernels.push_back(*kernel);
  }
  return kernels;
}

}  // namespace

std::optional<std::vector<CapturedKernel>> capture_kernels(const std::function<void()>& operation) {
  if (!driver().complete) return std::nullopt;
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess) {
    cudaGetLastError();
    return std::nullopt;
  }
  operation();
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || !graph) {
    cudaGetLastError();
    return std::nullopt;
  }
  std::optional<std::vector<CapturedKernel>> kernels = read_graph(graph);
  cudaGraphDestroy(graph);
  return kernels;
}

#else

std::optional<std::vector<CapturedKernel>> capture_kernels(const std::function<void()>&) {
  return std::nullopt;
}

#endif

}  // namespace pdl
