// store.h: what is remembered, in one SQLite file.
// Owns: the file (WAL, versioned schema, real columns), kernels, winners with their evidence, leases, quarantine.
// Never: knows attention; keys are text it is given. Never throws, never loses the caller: what cannot be read or
// written becomes a warning, and the store works on without it.
// Threads: one Store may be used from many threads (one connection behind a mutex). Many processes may share a file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gqa::cache {

enum class Mode { kReadWrite, kReadOnly, kOff };

// 32 hex digits of XXH3-128.
std::string hash128(std::string_view bytes);

// What a kernel is kept under: 32 digits of its source and architecture, then 16 of its compiler. Keys that begin with
// the same 32 are one source, made by several compilers.
std::string kernel_key(std::string_view closure, std::string_view arch, std::string_view compiler);

struct KernelRow {
  std::string key;        // kernel_key() of the next three
  std::string closure;    // a hash of the source with all that it includes
  std::string arch;       // "sm_90a"; host: the host's arch
  std::string compiler;   // with its version and options: "nvrtc 13.0 ..."
  std::string family;     // "warpgroup", "block", ...; kHelpingFamilies
  int abi = 0;            // of `launch` and of the kernel's parameters: whoever loads the kernel compares it
  std::string launch;     // the launch recipe, text that only the runtime reads
  std::string problem;    // the features it was made for: a note
  std::string candidate;  // a note
  std::string source, ptx, cubin, log;  // zstd-compressed and checksummed in the file
  int registers = 0, spill_bytes = 0, static_smem = 0;
  std::int64_t created = 0, used = 0;  // unix seconds; set by the store
  std::string elsewhere;               // as a winner's; a kernel that was imported has none
};

// Kernels that verify others, that merge states, that append to caches. They stay while a kernel of their architecture
// does, whether or not a winner runs them.
inline constexpr std::string_view kCheckFamily = "check", kMergeFamily = "merge", kAppendFamily = "append";
inline constexpr std::string_view kHelpingFamilies[] = {kCheckFamily, kMergeFamily, kAppendFamily};

// What a winner is looked up by. Under one key there is a row for each compiler that somebody tuned with.
struct WinnerKey {
  std::string signature;       // problem text
  std::string device;          // identity text
  std::string search;          // version of the search and way of timing
  std::string text() const;    // all three, one a line
  std::string digest() const;  // hash128(text())
};

struct WinnerRow {
  WinnerKey key;
  std::string compiler;      // at hand where it was tuned; its kernels name their own
  std::string families;      // of its kernels, with the versions they had: "block=1 flash=2"
  std::string kernel;        // KernelRow::key; where it needs several kernels, the key of each, a space between
  std::string candidate;     // text, with the launch parameters
  bool provisional = false;  // verified, but not timed, or beside load: a guess, until somebody tunes
  double median_us = 0, spread_us = 0, clock_mhz = 0;
  double error = 0, bound = 0;
  std::string driver;    // what it was measured with; a note, not a key
  std::string evidence;  // JSON; zstd-compressed and checksummed in the file
  std::int64_t created = 0, used = 0;
  // The file that it came in, where nobody has verified it for this one yet: a file beneath the first, or this one,
  // into which it was imported. "": it was measured or verified here. No column of its own; putting the row makes it
  // "".
  std::string elsewhere;
  std::vector<std::string> kernels() const;  // `kernel` as keys
  std::string id() const;                    // key.digest(), then 16 digits of the compiler: one row of the file
};

// Whether a row is what its asker is after: of versions that are still good, of its compiler, tuned. Called under the
// store's mutex: compares, and asks nothing of the store.
using Suits = std::function<bool(const WinnerRow&)>;

// The right to tune one key among processes: held until released or until it expires unrenewed.
class Lease {
 public:
  virtual ~Lease() = default;  // releases
  virtual void renew() = 0;    // call while working, at least every few seconds (the store may do it on a thread)
};

struct Damage {
  std::string table, key, what;  // "kernels", "9f..", "cubin: checksum mismatch"
  bool repaired = false;         // quarantined, to be rebuilt at its next use
};

struct Stats {
  std::string path;  // "" when off
  std::string mode;  // "read-write", "read-only", "off", with why if it is not what was asked for
  int schema = 0;
  std::int64_t kernels = 0, winners = 0, provisional = 0, quarantined = 0, leases = 0;  // provisional: of the winners
  std::int64_t file_bytes = 0, blob_bytes = 0, raw_bytes = 0;
};

struct Pruned {
  std::int64_t winners = 0, kernels = 0, bytes = 0;
};

class Store {
 public:
  struct Options {
    std::string path;  // "": as $GQA_CACHE or default_path(); may name several files (layer_paths.h)
    Mode mode = Mode::kReadWrite;
    double lease_seconds = 10;  // a lease not renewed for this long belongs to a dead process
  };
  // Always gives a store; if the file cannot be used it is off or read-only and a warning says why. A file that is not
  // ours is never written, moved or removed, nor what lies beside it; one of ours that is damaged is set aside. An
  // empty file of this user's is used as if it were not there yet. A file that can only be read is used read-only.
  // Where there are several files, mode() and path() are the first's, which alone is written; those beneath are read.
  static std::unique_ptr<Store> open(const Options& options);
  // The first file of $GQA_CACHE, else $XDG_CACHE_HOME/gqa/cache.db, else ~/.cache/gqa/cache.db.
  static std::string default_path();
  // The path with $HOME for a ~ before its first slash: in variables and options no shell has put it there.
  static std::string expanded(const std::string& path);

  virtual ~Store() = default;
  virtual Mode mode() const = 0;  // what it is now, not what was asked for

  // A row whose checksum fails is quarantined (read-write) and reported as absent, with a warning. A winner may be
  // there while its kernel was quarantined: that is a miss, and acquire() grants it.
  //
  // All rows of the key, the compiler's own first, then tuned ones before provisional ones, then the newest first.
  virtual std::vector<WinnerRow> find_winners(const WinnerKey& key, std::string_view compiler) = 0;
  std::optional<WinnerRow> find_winner(const WinnerKey& key, std::string_view compiler);  // the first of them
  virtual std::optional<KernelRow> find_kernel(const std::string& key) = 0;
  // The kernel of that key; else what another compiler made of the same source for the same architecture, the newest.
  virtual std::optional<KernelRow> find_kernel_of_any_compiler(const std::string& key) = 0;
  // False if it could not be kept; the reason is a warning. Off or read-only because it was asked for: false, and none.
  virtual bool put_kernel(const KernelRow& row) = 0;
  // Its kernels must be there already. Replaces the row of the same key and compiler, and no other. A provisional row
  // leaves a tuned one of the same families as it is, and is then not kept.
  virtual bool put_winner(const WinnerRow& row) = 0;

  // Waits until this process may tune the key, or until a winner appears for it that suits, any where `suits` is empty
  // (then null, and find_winners has it). Never blocks longer than the other's lease lives. In off or read-only mode:
  // granted at once. `stop` is asked while waiting: once true, null.
  virtual std::unique_ptr<Lease> acquire(const WinnerKey& key, const Suits& suits = {},
                                         const std::function<bool()>& stop = {}) = 0;

  virtual std::vector<WinnerRow> list_winners() = 0;
  virtual std::vector<KernelRow> list_kernels() = 0;  // without blobs
  virtual std::vector<Damage> verify(bool repair) = 0;
  // A self-contained file of all rows, under a new name or in place of an older export: anything else stays untouched
  // and is named. Import checks every checksum first and takes all or nothing. "" or what failed. The newer of two
  // winners of one key and compiler stays, and of two kernels of one key the one that is there. Naming a file to import
  // is trusting it: it is checked for damage, not for who wrote it. Winners that it brings are `elsewhere`.
  virtual std::string export_to(const std::string& path) = 0;
  virtual std::string import_from(const std::string& path) = 0;
  // Removes the winner of that id, and those of its kernels that no other winner needs. What was not there is not
  // counted.
  virtual Pruned forget(const std::string& id) = 0;
  // Winners unused for that long, then least recently used until the file is small enough, then kernels no winner needs
  // (compile-only kernels count as used when they were made). The newest kernels of each of kHelpingFamilies, by
  // architecture and compiler, go last, with the architecture's last kernel. -1: no such limit.
  virtual Pruned prune(double unused_days, std::int64_t max_bytes) = 0;
  virtual Stats stats() = 0;
  // Stats::path alone, which counts nothing.
  virtual std::string path() = 0;

  // What went wrong since the last call: one line each, for the log callback.
  virtual std::vector<std::string> take_warnings() = 0;
};

}  // namespace gqa::cache
