// models.h: the attention shapes of models that people serve.
// Owns: a flat table of models (their attention's heads, head_dim, window, soft cap and sink), which prefill and decode
// shapes one means, and what a range of calls that serve it means.
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
  std::int32_t left = -1;  // keys before its own that a query sees in layers with a window; -1: no layer has one
  bool softcap = false, sink = false;
};

const std::vector<Model>& models();

// "llama-3-70b" or "llama-3-70b,tp=8": the shapes one of tp tensor-parallel ranks meets in bf16. Prefill: 512 to 8k
// tokens, causal, batch 1. Decode: one query, batch 1 to 64, 1k to 16k keys. Twice where some of its layers have a
// window. Throws Usage.
std::vector<Problem> model_shapes(std::string_view text);

// The signatures of all calls of the range that the model's layers make, each once: `serve` is a ServingRange's text.
// Throws Usage.
std::vector<Problem> serving_shapes(std::string_view model, std::string_view serve);

// What --serve means, for people: its items, what each stands for, examples.
std::string serving_text();

// What --model means, for people: the form, the shapes, every model of the table.
std::string models_text();

}  // namespace gqa::tools
