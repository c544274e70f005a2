# Builds for sanitizers compile the layers from a precompiled header, which halves their time; release builds do not, so
# that a missing include is seen there.
target_precompile_headers(gqa_search PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map> <memory>
  <mutex> <optional> <random> <set> <sstream> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
foreach(layer gqa_cache gqa_jit gqa_runtime)
  target_precompile_headers(${layer} REUSE_FROM gqa_search)
endforeach()
set_target_properties(gqa_search gqa_cache gqa_jit gqa_runtime PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
