// models.h: the attention shapes of models that people serve.
// Owns: a flat table of models (heads and head_dim of their attention) and which prefill and decode shapes one means.
// Never: knows weights, layers or anything else of a model. A model is one line in models.cc.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/problem/problem.h"

namespace gqa::tools {

struct Model {
  std::string_view name;
  std::int32_t q_heads, kv_heads, head_dim;
};

const std::vector<Model>& models();

// "llama-3-70b" or "llama-3-70b,tp=8": the shapes one of tp tensor-parallel ranks meets in bf16. Prefill: 512 to 8k
// tokens, causal, batch 1. Decode: one query, batch 1 to 64, 1k to 16k keys. Throws Usage.
std::vector<Problem> model_shapes(std::string_view text);

// What --model means, for people: the form, the shapes, every model of the table.
std::string models_text();

}  // namespace gqa::tools
