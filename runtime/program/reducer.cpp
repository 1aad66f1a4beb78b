#include "runtime/program/reducer.hpp"

#include <string>
#include <unordered_map>

namespace pdl {

std::shared_ptr<c10d::Reducer> make_reducer(const std::vector<at::Tensor>& parameters, const ReducerBuckets& buckets,
                                            const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  return std::make_shared<c10d::Reducer>(
      parameters, buckets.parameters, group, /*expect_sparse_gradients=*/std::vector<bool>(parameters.size(), false),
      buckets.bucket_bytes, /*find_unused_parameters=*/false, buckets.views,
      /*param_to_name_mapping=*/std::unordered_map<std::size_t, std::string>{}, buckets.first_bucket_bytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      /*bucket_bytes_cap_list=*/std::vector<std::int64_t>{});
}

}  // namespace pdl
