// models.cc: see models.h.
#include "tools/cache/models.h"

#include <algorithm>

#include "search/problem/mask.h"
#include "search/problem/serving_range.h"
#include "search/text.h"
#include "tools/cache/errors.h"
#include "tools/cache/numbers.h"

namespace gqa::tools {
namespace {

constexpr std::int32_t kPrefillLengths[] = {512, 1024, 2048, 4096, 8192};
constexpr std::int32_t kDecodeBatches[] = {1, 8, 32, 64};
constexpr std::int32_t kDecodeLengths[] = {1024, 4096, 16384};
constexpr std::int64_t kMostRanks = 1024;

constexpr const char* kServing =
    R"(--serve RANGE, beside --model, stands for every call that an engine makes for the model in ranges of sizes,
instead of the model's usual shapes. It is a list of items with commas between, in any order:

  gqa-cache warm --model llama-3-8b --serve batch=1..256,kv=1..32k,page=16

A range is N or N..N, both ends in it. A k behind a number stands for 1024, an M for 1024 * 1024.
  batch=RANGE    sequences of a call; required
  kv=RANGE       keys that the cache has room for in a sequence: of pages, a page times the page table's columns; of a
                 dense cache, its length. Required beside q and chunk. How many keys there are (cache_seqlens) is no
                 part of it: a growing sequence needs no other shape
  page=N         the cache lies in pages of N keys; default: it is dense

Which calls; where none of the three is given, q=1, which is decode steps:
  q=RANGE        flash_attn_with_kvcache with q of shape (batch, q, heads, d)
  chunk=RANGE    the same with cu_seqlens_q, max_seqlen_q in RANGE: chunks of prefill, decode steps among them
  prefill=RANGE  flash_attn_varlen_func with cu_seqlens_q and cu_seqlens_k, max_seqlen_q = max_seqlen_k in RANGE: whole
                 prompts; kv and page do not concern it

  dtype=T        bf16, the default, f16 or f32
  lse            the calls ask for log-sum-exp; give --serve twice for calls with and without

All calls are causal and give cache_seqlens where there is a cache. Each of the model's layers is taken with its window,
soft cap and sink. Rows are aligned to 16 bytes. --serve is repeatable; each counts for each --model.

How many shapes it is depends on what an engine hands in. One that hands in its whole page table in every call gives
kv=32k and not kv=1..32k; one whose max_seqlen_q is always that of the longest chunk gives chunk=512, not chunk=1..512.
  batch=1..64,kv=8k,page=16                  decode, tables for 8k keys each
  batch=1..64,kv=8k,page=16,q=1..8           the same with up to 8 tokens a sequence, for speculative decoding
  batch=1..64,kv=8k,page=16,q=1,chunk=512    decode, and batches with chunks of up to 512 tokens
  batch=1..16,prefill=128..8k                packed prompts

The plan (shapes, kernels, seconds) is printed before the work; --dry-run prints it alone.
)";

const Model& find_model(std::string_view name) {
  const auto found = std::find_if(models().begin(), models().end(), [&](const Model& m) { return m.name == name; });
  if (found != models().end()) return *found;
  std::string known;
  for (const Model& model : models()) known += (known.empty() ? "" : ", ") + std::string(model.name);
  throw Usage("unknown model " + quote(name) + "; known: " + known + ". Give any other as --shape or --shapes");
}

// The "tp=N" behind the name; 1 without.
std::int32_t parse_ranks(std::string_view model, const std::vector<std::string_view>& options) {
  if (options.empty()) return 1;
  const std::string where = "--model " + std::string(model) + ": ",
                    form = "expected NAME or NAME,tp=N as in llama-3-70b,tp=8";
  if (options.size() > 1) throw Usage(where + std::to_string(options.size()) + " options are given; " + form);
  const std::string_view item = trim(options.front());
  if (item.substr(0, 3) != "tp=") throw Usage(where + "unknown option " + quote(item) + "; " + form);
  std::int64_t ranks = 1;
  const Status status = parse_number("tp", item.substr(3), 1, kMostRanks, &ranks);
  if (!status.ok()) throw Usage(where + status.message());
  return static_cast<std::int32_t>(ranks);
}

// One rank's share of the heads.
Model split(Model model, std::int32_t ranks) {
  const auto share = [&](const char* what, std::int32_t heads) {
    if (heads % ranks == 0) return heads / ranks;
    throw Usage("tp=" + std::to_string(ranks) + " does not divide the " + std::to_string(heads) + " " + what + " of " +
                std::string(model.name) + "; expected a divisor of both " + std::to_string(model.q_heads) +
                " query and " + std::to_string(model.kv_heads) + " key/value heads");
  };
  Model rank = model;
  rank.q_heads = share("query heads", model.q_heads);
  rank.kv_heads = share("key/value heads", model.kv_heads);
  return rank;
}

// "llama-3-70b,tp=8"
Model parse_model(std::string_view text) {
  std::vector<std::string_view> parts = split_text(text, ',');
  const std::string_view name = trim(parts.front());
  parts.erase(parts.begin());
  return split(find_model(name), parse_ranks(name, parts));
}

// Without sizes: the layers that see all keys, and those with a window.
std::vector<Problem> layers_of(const Model& model) {
  Problem layer;
  layer.head_dim = layer.head_dim_v = model.head_dim;
  layer.q_heads = model.q_heads;
  layer.kv_heads = model.kv_heads;
  layer.sink = model.sink;
  if (model.softcap) layer.chain = softcap_chain();
  std::vector<Problem> layers = {layer};
  if (model.left < 0) return layers;
  set_window(model.left, 0, &layer);
  layers.push_back(layer);
  return layers;
}

Problem shape(const Problem& layer, std::int32_t batch, std::int32_t q_len, std::int32_t kv_len) {
  Problem problem = layer;
  problem.batch = batch;
  problem.q_len = q_len;
  problem.kv_len = kv_len;
  set_call_window(layer.window_left, 0, &problem);
  return Signature(problem).problem();
}

// "1, 8, 32 and 64"
template <std::size_t N>
std::string list_text(const std::int32_t (&numbers)[N]) {
  std::string text;
  for (std::size_t i = 0; i < N; ++i) text += (i == 0 ? "" : i + 1 < N ? ", " : " and ") + std::to_string(numbers[i]);
  return text;
}

}  // namespace

const std::vector<Model>& models() {
  static const std::vector<Model> table = {
      {"llama-3-8b", 32, 8, 128},
      {"llama-3-70b", 64, 8, 128},
      {"llama-3.1-405b", 128, 8, 128},
      {"qwen2.5-7b", 28, 4, 128},
      {"qwen3-8b", 32, 8, 128},
      {"qwen3-30b-a3b", 32, 4, 128},
      {"qwen3-235b-a22b", 64, 4, 128},
      {"mistral-7b", 32, 8, 128},
      {"mixtral-8x7b", 32, 8, 128},
      {"gemma-2-9b", 16, 8, 256, 4095, true},
      {"gemma-3-27b", 32, 16, 128, 1023},
      {"phi-4", 40, 10, 128},
      {"gpt-oss-20b", 64, 8, 64, 127, false, true},
  };
  return table;
}

std::vector<Problem> model_shapes(std::string_view text) {
  std::vector<Problem> shapes;
  const auto add = [&shapes](const Problem& problem) {
    if (std::find(shapes.begin(), shapes.end(), problem) == shapes.end()) shapes.push_back(problem);
  };
  for (const Problem& layer : layers_of(parse_model(text))) {
    for (const std::int32_t length : kPrefillLengths) add(shape(layer, 1, length, length));
    for (const std::int32_t batch : kDecodeBatches) {
      for (const std::int32_t length : kDecodeLengths) add(shape(layer, batch, 1, length));
    }
  }
  return shapes;
}

std::vector<Problem> serving_shapes(std::string_view model, std::string_view serve) {
  ServingRange range;
  if (const Status status = parse(plain_numbers(serve), &range); !status.ok())
    throw Usage("--serve " + quote(serve) + ": " + status.message() + "; gqa-cache help serve explains it");
  std::vector<Problem> shapes;
  for (const Problem& layer : layers_of(parse_model(model))) {
    for (const Signature& signature : signatures(range, layer)) shapes.push_back(signature.problem());
  }
  return shapes;
}

std::string serving_text() { return kServing; }

std::string models_text() {
  std::string text =
      "--model NAME[,tp=N] stands for the usual shapes of a model, in bf16 and without lse:\n"
      "  prefill   one sequence of " +
      list_text(kPrefillLengths) + " tokens, causal\n  decode    one query for each of " + list_text(kDecodeBatches) +
      " sequences, on " + list_text(kDecodeLengths) +
      " keys\ntp=N takes the heads of one of N tensor-parallel ranks. N divides both numbers of heads.\n"
      "Where some layers have a window, these shapes are taken with it too, where it hides anything.\n"
      "What an engine calls for a model on a cache is another matter: gqa-cache help serve.\n"
      "NAME is one of these; give any other model's shapes as --shape or --shapes:\n";
  for (const Model& model : models()) {
    std::string name(model.name);
    name.resize(std::max<std::size_t>(name.size(), 16), ' ');
    text += "  " + name + "  hq=" + std::to_string(model.q_heads) + ",hk=" + std::to_string(model.kv_heads) +
            ",d=" + std::to_string(model.head_dim) + (model.softcap ? ",softcap" : "") + (model.sink ? ",sink" : "") +
            (model.left >= 0 ? "; some layers left=" + std::to_string(model.left) : "") + "\n";
  }
  return text;
}

}  // namespace gqa::tools
