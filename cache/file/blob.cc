// blob.cc: zstd and XXH3-128 behind blob.h and store.h's hash128.
// Owns: the compression level.
// Never: allocates what a damaged frame asks for.
// Threads: pure functions.
#include "cache/file/blob.h"

#include <xxhash.h>
#include <zstd.h>

#include <stdexcept>

#include "cache/store.h"

namespace gqa::cache {
namespace {

constexpr int kLevel = 3;  // PTX and source shrink about eightfold; higher levels gain a tenth for ten times the time

}  // namespace

std::string hash128(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::string text;
  text.reserve(2 * sizeof canonical.digest);
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Blob pack(std::string_view raw) {
  Blob blob;
  blob.sum = hash128(raw);
  blob.raw_bytes = static_cast<std::int64_t>(raw.size());
  if (raw.empty()) return blob;
  blob.packed.resize(ZSTD_compressBound(raw.size()));
  const std::size_t size = ZSTD_compress(blob.packed.data(), blob.packed.size(), raw.data(), raw.size(), kLevel);
  if (ZSTD_isError(size)) throw std::runtime_error(std::string("zstd: ") + ZSTD_getErrorName(size));
  blob.packed.resize(size);
  return blob;
}

bool unpack(std::string_view packed, std::string_view sum, std::int64_t raw_limit, std::string* raw) {
  raw->clear();
  if (packed.empty()) return hash128("") == sum;
  const unsigned long long claimed = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR || claimed == ZSTD_CONTENTSIZE_UNKNOWN) return false;
  if (raw_limit < 0 || claimed > static_cast<unsigned long long>(raw_limit)) return false;
  raw->resize(claimed);
  const std::size_t size = ZSTD_decompress(raw->data(), raw->size(), packed.data(), packed.size());
  if (ZSTD_isError(size) || size != claimed) return false;
  return hash128(*raw) == sum;
}

}  // namespace gqa::cache
