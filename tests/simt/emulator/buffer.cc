// buffer.cc: see buffer.h.
#include "tests/simt/emulator/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

namespace gqa::simt {
namespace {

constexpr char kGuard = '\x5a', kPoison = '\xff';
constexpr std::size_t kFaulting = std::size_t{1} << 20;  // bytes on each side; only address space

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::vector<const Buffer*>& all() {
  static std::vector<const Buffer*> buffers;
  return buffers;
}

}  // namespace

Buffer::Buffer(std::string name, std::size_t bytes, std::size_t alignment) : name_(std::move(name)), bytes_(bytes) {
  const std::size_t inside = round_up(std::max<std::size_t>(bytes, 1) + alignment, page());
  mapped_ = inside + 2 * kFaulting;
  void* map = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  map_ = static_cast<char*>(map);
  mprotect(map_ + kFaulting, inside, PROT_READ | PROT_WRITE);
  std::memset(map_ + kFaulting, kGuard, inside);
  const auto end = reinterpret_cast<std::uintptr_t>(map_ + kFaulting + inside);
  data_ = reinterpret_cast<char*>((end - bytes) / alignment * alignment);
  poison();
  all().push_back(this);
}

Buffer::~Buffer() {
  munmap(map_, mapped_);
  all().erase(std::find(all().begin(), all().end(), this));
}

void Buffer::poison() { std::memset(data_, kPoison, bytes_); }

void Buffer::copy_in(const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(data_, from, std::min(bytes, bytes_));
}

std::string Buffer::damage() const {
  const char* const ends[2][2] = {{map_ + kFaulting, data_}, {data_ + bytes_, map_ + mapped_ - kFaulting}};
  for (const auto& end : ends)
    for (const char* at = end[0]; at < end[1]; ++at)
      if (*at != kGuard) return "a store " + near(at);
  return {};
}

std::string Buffer::near(const void* address) {
  const char* at = static_cast<const char*>(address);
  for (const Buffer* b : all()) {
    if (at < b->map_ || at >= b->map_ + b->mapped_) continue;
    const std::string what = b->name_ + " (" + std::to_string(b->bytes_) + " bytes)";
    if (at < b->data_) return std::to_string(b->data_ - at) + " bytes before " + what;
    const std::ptrdiff_t past = at - b->data_ - static_cast<std::ptrdiff_t>(b->bytes_);
    if (past >= 0) return std::to_string(past) + " bytes past the end of " + what;
    return "at byte " + std::to_string(at - b->data_) + " of " + what;
  }
  return {};
}

std::string Buffer::damage_of_all() {
  for (const Buffer* b : all())
    if (std::string text = b->damage(); !text.empty()) return text;
  return {};
}

}  // namespace gqa::simt
