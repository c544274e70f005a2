// kind.cc: file types and magic numbers.
// Owns: see kind.h.
// Threads: see kind.h.
#include "cache/file/kind.h"

#include <algorithm>

namespace gqa::cache {
namespace {

struct Magic {
  std::size_t at;
  std::string_view bytes;
  const char* kind;
};

constexpr Magic kMagics[] = {
    {0, kSqliteMagic, "an SQLite database"},
    {0, kWalMagic, "an SQLite write-ahead log"},
    {0, kJournalMagic, "an SQLite rollback journal"},
    {0,
     "\x7f"
     "ELF",
     "an ELF binary"},
    {0, "#!", "a script"},
    {0, "\x1f\x8b", "a gzip file"},
    {0, "\x28\xb5\x2f\xfd", "a zstd file"},
    {0, "PK\x03\x04", "a zip archive"},
    {0, "!<arch>\n", "a library archive"},
    {0, "%PDF-", "a PDF file"},
    {0, "\x89PNG", "a PNG image"},
    {0, "\x93NUMPY", "a NumPy array"},
    {0, "\x89HDF", "an HDF5 file"},
    {257, "ustar", "a tar archive"},
};

constexpr const char* kBinary = "a binary file";
constexpr const char* kZeros = "a file of zeros";

// Bytes from 128 on count as letters of whatever encoding.
bool is_text(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f) || (byte >= '\b' && byte <= '\r') || byte == 0x1b;
  });
}

// Noise has control characters among its first bytes; UTF-16 has zeros in every other place.
bool is_utf16(std::string_view bytes) { return bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff"); }

}  // namespace

std::string kind_of(const struct stat& at) {
  if (S_ISDIR(at.st_mode)) return "a directory";
  if (S_ISCHR(at.st_mode) || S_ISBLK(at.st_mode)) return "a device node";
  if (S_ISFIFO(at.st_mode)) return "a pipe";
  if (S_ISSOCK(at.st_mode)) return "a socket";
  if (S_ISLNK(at.st_mode)) return "a link";
  return at.st_size == 0 ? "an empty file" : "a file";
}

std::string kind_of(std::string_view bytes) {
  for (const Magic& magic : kMagics) {
    if (bytes.size() >= magic.at && bytes.substr(magic.at).starts_with(magic.bytes)) return magic.kind;
  }
  if (bytes.empty()) return "an empty file";
  if (is_text(bytes) || is_utf16(bytes)) return "a text file";
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; }) ? kZeros : kBinary;
}

bool is_unknown_binary(std::string_view bytes) {
  const std::string kind = kind_of(bytes);
  return kind == kBinary || kind == kZeros;
}

}  // namespace gqa::cache
