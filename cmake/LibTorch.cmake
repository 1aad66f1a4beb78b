# pdl_torch: LibTorch and, where it is a CUDA build and the headers are there, CUDA and NCCL.
#
#   include(cmake/LibTorch.cmake)
#   target_link_libraries(pdl_runtime PUBLIC pdl_torch)
#
# Looks for the folder that holds lib/libtorch_cpu.so and share/cmake/Torch (a Python wheel's torch/, or an unpacked
# LibTorch) in PDL_TORCH_ROOT, CMAKE_PREFIX_PATH, the cache that ./bootstrap all fills, and the torch of python3.
# Compile definitions that come with pdl_torch:
#   PDL_CUDA=1, USE_C10D_NCCL   CUDA and NCCL: headers and libraries of the toolkit or of the wheel's own packages
#   PDL_GLOO=1, USE_C10D_GLOO   Gloo's headers were found (libgloo-dev); its code is inside libtorch_cpu.so
#   PDL_CUPTI=1                 CUPTI: kernel records with grid and block sizes
# Not find_package(Torch): that asks for nvcc and a whole toolkit, which a host without a GPU need not have, and
# for the GPU's architecture, which only matters to .cu files; there are none here.

set(PDL_TORCH_VERSION 2.11.0)
set(PDL_TORCH_ROOT "" CACHE PATH "Folder of LibTorch: holds lib/libtorch_cpu.so and include/torch")

function(pdl_find_torch_root result)
  if(PDL_TORCH_ROOT)
    set(${result} "${PDL_TORCH_ROOT}" PARENT_SCOPE)
    return()
  endif()
  if(DEFINED ENV{PDL_DEPS})
    set(deps "$ENV{PDL_DEPS}")
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(deps "$ENV{XDG_CACHE_HOME}/pdl")
  else()
    set(deps "$ENV{HOME}/.cache/pdl")
  endif()
  find_path(config TorchConfig.cmake NO_CACHE PATHS ${CMAKE_PREFIX_PATH} "${deps}/torch-${PDL_TORCH_VERSION}"
            PATH_SUFFIXES Torch share/cmake/Torch torch/share/cmake/Torch NO_DEFAULT_PATH)
  if(NOT config)
    set(locate "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')")
    execute_process(COMMAND python3 -c "${locate}" OUTPUT_VARIABLE torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_path(config TorchConfig.cmake NO_CACHE PATHS "${torch}/share/cmake/Torch" NO_DEFAULT_PATH)
  endif()
  if(config)
    get_filename_component(root "${config}/../../.." ABSOLUTE)
    set(${result} "${root}" PARENT_SCOPE)
  endif()
endfunction()

pdl_find_torch_root(torch_root)
if(NOT EXISTS "${torch_root}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "No LibTorch ${PDL_TORCH_VERSION} (looked in '${torch_root}'). Run ./bootstrap all, or give its "
                      "folder: -DPDL_TORCH_ROOT=.../torch, which holds lib/libtorch_cpu.so")
endif()
file(STRINGS "${torch_root}/include/torch/headeronly/version.h" torch_version REGEX "^ +\"[0-9.]+\"")
string(REGEX REPLACE "[ \"]" "" torch_version "${torch_version}")
if(NOT torch_version VERSION_EQUAL PDL_TORCH_VERSION)
  message(FATAL_ERROR "LibTorch in ${torch_root} is version '${torch_version}', expected ${PDL_TORCH_VERSION}")
endif()

add_library(pdl_torch INTERFACE)
target_include_directories(pdl_torch SYSTEM INTERFACE "${torch_root}/include"
                           "${torch_root}/include/torch/csrc/api/include")
# Libraries that only register operators (torch_cuda) would be dropped where the linker's default is --as-needed.
# libstdc++ comes first: the wheel's libraries carry parts of an older one inside (std::filesystem), with names that
# others see, and a program that finds those instead of its own crashes.
target_link_options(pdl_torch INTERFACE LINKER:--no-as-needed -lstdc++)
target_link_libraries(pdl_torch INTERFACE "${torch_root}/lib/libtorch.so" "${torch_root}/lib/libtorch_cpu.so"
                      "${torch_root}/lib/libc10.so" Threads::Threads)

# The wheel's libraries name the CUDA libraries they need; the linker must find those to check symbols, and, where
# they are in a toolkit that the loader does not know, the built program must too.
get_filename_component(nvidia "${torch_root}/../nvidia" ABSOLUTE)
set(cuda_roots "${nvidia}/cu13" "${nvidia}/nccl" "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" /usr/local/cuda)
# One folder must hold all that cuda_runtime.h and cuda_fp16.h include: headers of two versions do not mix.
set(cuda_include "")
foreach(root ${cuda_roots})
  if(NOT cuda_include AND EXISTS "${root}/include/cuda_runtime.h" AND EXISTS "${root}/include/crt/host_config.h"
     AND (EXISTS "${root}/include/nv/target" OR EXISTS "${root}/include/cccl/nv/target"))
    file(STRINGS "${root}/include/cuda.h" cuda_version REGEX "^#define CUDA_VERSION 13[0-9]+")
    if(cuda_version)
      set(cuda_include "${root}/include")
    endif()
  endif()
endforeach()
find_path(PDL_NCCL_INCLUDE nccl.h HINTS ${cuda_roots} PATH_SUFFIXES include)
find_path(PDL_CUPTI_INCLUDE cupti.h PATHS ${cuda_roots} PATH_SUFFIXES include extras/CUPTI/include NO_DEFAULT_PATH)
find_library(PDL_CUDART_LIBRARY NAMES libcudart.so.13 PATHS ${cuda_roots} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
find_library(PDL_NCCL_LIBRARY NAMES libnccl.so.2 HINTS ${cuda_roots} PATH_SUFFIXES lib lib64)
find_library(PDL_CUBLASLT_LIBRARY NAMES libcublasLt.so.13 PATHS ${cuda_roots} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
find_library(PDL_CUPTI_LIBRARY NAMES libcupti.so.13 PATHS ${cuda_roots}
             PATH_SUFFIXES lib lib64 extras/CUPTI/lib64 NO_DEFAULT_PATH)
mark_as_advanced(PDL_NCCL_INCLUDE PDL_CUPTI_INCLUDE PDL_CUDART_LIBRARY PDL_CUBLASLT_LIBRARY PDL_NCCL_LIBRARY
                 PDL_CUPTI_LIBRARY)

set(torch_parts "CPU")
if(EXISTS "${torch_root}/lib/libtorch_cuda.so" AND cuda_include AND PDL_NCCL_INCLUDE AND PDL_CUDART_LIBRARY
   AND PDL_CUBLASLT_LIBRARY AND PDL_NCCL_LIBRARY)
  string(APPEND torch_parts ", CUDA, NCCL")
  target_compile_definitions(pdl_torch INTERFACE PDL_CUDA=1 USE_C10D_NCCL)
  target_include_directories(pdl_torch SYSTEM INTERFACE "${cuda_include}" "${cuda_include}/cccl" "${PDL_NCCL_INCLUDE}")
  target_link_libraries(pdl_torch INTERFACE "${torch_root}/lib/libtorch_cuda.so" "${torch_root}/lib/libc10_cuda.so"
                        "${PDL_CUDART_LIBRARY}" "${PDL_CUBLASLT_LIBRARY}" "${PDL_NCCL_LIBRARY}")
  if(PDL_CUPTI_INCLUDE AND PDL_CUPTI_LIBRARY)
    string(APPEND torch_parts ", CUPTI")
    target_compile_definitions(pdl_torch INTERFACE PDL_CUPTI=1)
    target_include_directories(pdl_torch SYSTEM INTERFACE "${PDL_CUPTI_INCLUDE}")
    target_link_libraries(pdl_torch INTERFACE "${PDL_CUPTI_LIBRARY}")
  endif()
endif()

find_path(PDL_GLOO_INCLUDE gloo/algorithm.h)
mark_as_advanced(PDL_GLOO_INCLUDE)
if(PDL_GLOO_INCLUDE)
  string(APPEND torch_parts ", Gloo")
  target_compile_definitions(pdl_torch INTERFACE PDL_GLOO=1 USE_C10D_GLOO)
  target_include_directories(pdl_torch SYSTEM INTERFACE "${PDL_GLOO_INCLUDE}")
endif()
message(STATUS "LibTorch ${torch_version} in ${torch_root}: ${torch_parts}")
