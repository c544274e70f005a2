// models.cc: see models.h.
#include "tools/cache/models.h"

#include <algorithm>

#include "search/text.h"
#include "tools/cache/errors.h"

namespace gqa::tools {
namespace {

constexpr std::int32_t kPrefillLengths[] = {512, 1024, 2048, 4096, 8192};
constexpr std::int32_t kDecodeBatches[] = {1, 8, 32, 64};
constexpr std::int32_t kDecodeLengths[] = {1024, 4096, 16384};
constexpr std::int64_t kMostRanks = 1024;

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
  return {model.name, share("query heads", model.q_heads), share("key/value heads", model.kv_heads), model.head_dim};
}

Problem shape(const Model& model, std::int32_t batch, std::int32_t q_len, std::int32_t kv_len) {
  Problem problem;
  problem.mask = q_len > 1 ? Mask::kCausal : Mask::kNone;
  problem.head_dim = problem.head_dim_v = model.head_dim;
  problem.batch = batch;
  problem.q_heads = model.q_heads;
  problem.kv_heads = model.kv_heads;
  problem.q_len = q_len;
  problem.kv_len = kv_len;
  return problem;
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
      {"llama-3-8b", 32, 8, 128},      {"llama-3-70b", 64, 8, 128},  {"llama-3.1-405b", 128, 8, 128},
      {"qwen2.5-7b", 28, 4, 128},      {"qwen3-8b", 32, 8, 128},     {"qwen3-30b-a3b", 32, 4, 128},
      {"qwen3-235b-a22b", 64, 4, 128}, {"mistral-7b", 32, 8, 128},   {"mixtral-8x7b", 32, 8, 128},
      {"gemma-2-9b", 16, 8, 256},      {"gemma-3-27b", 32, 16, 128}, {"phi-4", 40, 10, 128},
      {"gpt-oss-20b", 64, 8, 64},
  };
  return table;
}

std::vector<Problem> model_shapes(std::string_view text) {
  std::vector<std::string_view> parts = split_text(text, ',');
  const std::string_view name = trim(parts.front());
  parts.erase(parts.begin());
  const Model model = find_model(name);
  const Model rank = split(model, parse_ranks(name, parts));
  std::vector<Problem> shapes;
  for (const std::int32_t length : kPrefillLengths) shapes.push_back(shape(rank, 1, length, length));
  for (const std::int32_t batch : kDecodeBatches) {
    for (const std::int32_t length : kDecodeLengths) shapes.push_back(shape(rank, batch, 1, length));
  }
  return shapes;
}

std::string models_text() {
  std::string text =
      "--model NAME[,tp=N] stands for the usual shapes of a model, in bf16 and without lse:\n"
      "  prefill   one sequence of " +
      list_text(kPrefillLengths) + " tokens, causal\n  decode    one query for each of " + list_text(kDecodeBatches) +
      " sequences, on " + list_text(kDecodeLengths) +
      " keys\ntp=N takes the heads of one of N tensor-parallel ranks. N divides both numbers of heads.\n"
      "NAME is one of these; give any other model's shapes as --shape or --shapes:\n";
  for (const Model& model : models()) {
    std::string name(model.name);
    name.resize(std::max<std::size_t>(name.size(), 16), ' ');
    text += "  " + name + "  hq=" + std::to_string(model.q_heads) + ",hk=" + std::to_string(model.kv_heads) +
            ",d=" + std::to_string(model.head_dim) + "\n";
  }
  return text;
}

}  // namespace gqa::tools
