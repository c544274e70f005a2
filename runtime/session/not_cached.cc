// not_cached.cc: see not_cached.h.
#include "runtime/session/not_cached.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "cache/layer_paths.h"
#include "cache/store.h"
#include "runtime/workload/graph_workload.h"
#include "runtime/workload/operation_workload.h"

namespace gqa {
namespace {

constexpr std::string_view kPlain = "/._-+=,:";  // beside letters and digits

// As a shell reads it back.
std::string shell_word(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != std::string_view::npos;
  };
  if (std::all_of(text.begin(), text.end(), plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

}  // namespace

std::string warming_line(const std::string& signature, const DeviceSpec& device, const std::string& cache) {
  const bool named = !cache.empty() && cache != cache::Store::default_path();
  return "gqa-cache " + (named ? "--db " + shell_word(cache::as_layer(cache)) + " " : std::string()) + "warm " +
         (device.kind == DeviceKind::kHost ? "--device host " : "") + "--shape " + signature;
}

Status not_cached(const std::string& signature, const DeviceSpec& device, const std::string& cache) {
  const std::string what = cache.empty() ? "tuning is off and the cache, too: there is no program for "
                                         : "tuning is off and the cache holds no program for ";
  if (signature.starts_with(kGraphSignature))
    return {Code::kNotCached, what + signature + " on " + device.arch +
                                  ": superoptimize the graph once, with this cache, where tuning is allowed"};
  if (const auto operation = operation_of(signature))
    return {Code::kNotCached, "the cache holds no kernel that " + std::string(what_it_does(*operation)) + " for " +
                                  device.arch +
                                  " and tuning is off: allow tuning once, or import a cache that holds it"};
  return {Code::kNotCached, what + "this call on " + device.arch + ": allow tuning once, or " +
                                (cache.empty() ? "open a cache and " : "") + "warm it with " +
                                warming_line(signature, device, cache)};
}

}  // namespace gqa
