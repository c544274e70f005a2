// lease.cc: claims in a table, and the threads that keep them alive.
// Owns: see lease.h.
// Threads: see lease.h.
#include "cache/lease.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <thread>

#include "cache/file/process.h"
#include "cache/rows.h"

namespace gqa::cache {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kShortestLife(60), kFirstPause(2), kLongestPause(40);

// One row of `leases`. Times are unix milliseconds.
struct Claim {
  std::string digest, owner;
  Process process;
  std::int64_t beat = 0;  // counts renewals
  std::int64_t expires = 0, lifetime = 0;

  Cells cells() const {
    return {digest, owner, process.machine, process.pid, process.started, beat, expires, lifetime};
  }
};

std::int64_t unix_milliseconds() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::optional<Claim> claim_of(const Cells& cells) {
  const auto* checksum = std::get_if<std::string>(&cells.back());
  if (!checksum || *checksum != row_checksum(cells, cells.size() - 1)) return std::nullopt;
  const auto text = [&](int at) { return std::get<std::string>(cells[static_cast<std::size_t>(at)]); };
  const auto number = [&](int at) { return std::get<std::int64_t>(cells[static_cast<std::size_t>(at)]); };
  return Claim{text(0), text(1), {text(2), number(3), number(4)}, number(5), number(6), number(7)};
}

constexpr const char* kColumns = "digest, owner, machine, pid, started, beat, expires, lifetime, checksum";

// A damaged claim is none.
std::optional<Claim> read_claim(Database& db, const std::string& digest) {
  Statement statement = db.prepare(std::string("SELECT ") + kColumns + " FROM leases WHERE digest=?");
  return statement.bind(digest).step() ? claim_of(statement.cells()) : std::nullopt;
}

void write_claim(Database& db, const Claim& claim) {
  const Cells cells = claim.cells();
  db.prepare(std::string("INSERT OR REPLACE INTO leases(") + kColumns + ") VALUES(?,?,?,?,?,?,?,?,?)")
      .bind_all(cells)
      .bind(row_checksum(cells, cells.size()))
      .run();
}

// Whether the claim can be nobody's any more by the wall clock or the process table. A clock that was set back makes it
// look longer than it can be.
bool is_over(const Claim& claim, std::int64_t now) {
  return now >= claim.expires || claim.expires - now > 2 * claim.lifetime || is_dead(claim.process);
}

// Watches a claim by this process's own clock, which nobody sets: one that does not beat for its lifetime is dead.
class Watch {
 public:
  bool stalled(const Claim& claim) {
    const auto now = steady_clock::now();
    if (claim.owner != owner_ || claim.beat != beat_) {
      owner_ = claim.owner;
      beat_ = claim.beat;
      since_ = now;
    }
    return now - since_ > milliseconds(claim.lifetime);
  }

 private:
  std::string owner_;
  std::int64_t beat_ = -1;
  steady_clock::time_point since_;
};

// A lease that excludes nobody: where nothing can be written there is nothing to wait for.
class FreeLease : public Lease {
 public:
  void renew() override {}
};

class HeldLease : public Lease {
 public:
  HeldLease(std::shared_ptr<File> file, Claim claim) : file_(std::move(file)), claim_(std::move(claim)) {
    try {
      renewer_ = std::make_unique<std::jthread>([this](std::stop_token stop) { keep(stop); });
    } catch (const std::system_error& error) {
      file_->warn(std::string("a lease will not be renewed by itself, no thread could be started: ") + error.what());
    }
  }

  ~HeldLease() override {
    if (claim_.process.pid != getpid()) {
      // A forked child has a copy of the object, but neither the lease nor the thread.
      static_cast<void>(renewer_.release());
      return;
    }
    renewer_.reset();  // asks it to stop, and joins
    file_->run("release a lease", false, [this](Database& db, bool writable) {
      if (!writable) return false;
      db.prepare("DELETE FROM leases WHERE digest=? AND owner=?").bind(claim_.digest).bind(claim_.owner).run();
      return true;
    });
  }

  void renew() override {
    const std::lock_guard hold(renewing_);
    claim_.beat += 1;
    claim_.expires = unix_milliseconds() + claim_.lifetime;
    file_->run("renew a lease", false, [this](Database& db, bool writable) {
      if (!writable) return false;
      Transaction transaction(db);
      const auto current = read_claim(db, claim_.digest);
      // Gone means that the file was replaced; another's means that we were taken for dead, and are.
      if (!current || current->owner == claim_.owner) write_claim(db, claim_);
      transaction.commit();
      return true;
    });
  }

 private:
  void keep(const std::stop_token& stop) {
    std::mutex idle;
    std::condition_variable_any wake;
    std::unique_lock lock(idle);
    const milliseconds pause(claim_.lifetime / 3);
    while (!wake.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); })) renew();
  }

  const std::shared_ptr<File> file_;
  std::mutex renewing_;  // guards beat and expires
  Claim claim_;
  std::unique_ptr<std::jthread> renewer_;
};

// One that came from elsewhere is none before somebody has verified it: then it is put again.
bool has_winner(Database& db, const std::string& digest, const Suits& suits) {
  for (const Record& winner : select_of_all_compilers(db, Place::kWinners, digest, Part::kWhole)) {
    if (winner.complaint().empty() && missing_kernel(db, winner).empty() && !is_unverified(db, winner) &&
        (!suits || suits(winner_of(winner))))
      return true;
  }
  return false;
}

enum class Answer { kFree, kGranted, kWinner, kWait };

// One look: cheap reads first, so that the many who wait do not queue for the write lock.
Answer look(Database& db, const Claim& mine, const Suits& suits, Watch* watch) {
  const auto blocked = [&]() -> std::optional<Answer> {
    if (has_winner(db, mine.digest, suits)) return Answer::kWinner;
    const auto claim = read_claim(db, mine.digest);
    if (claim && !is_over(*claim, unix_milliseconds()) && !watch->stalled(*claim)) return Answer::kWait;
    return std::nullopt;
  };
  if (const auto answer = blocked()) return *answer;
  Transaction transaction(db);
  if (const auto answer = blocked()) return *answer;
  write_claim(db, mine);
  transaction.commit();
  return Answer::kGranted;
}

Claim new_claim(const std::string& digest, double seconds) {
  std::random_device random;  // tells this process's leases apart, and processes where /proc does not
  Claim claim;
  claim.digest = digest;
  claim.process = this_process();
  claim.lifetime = std::max(kShortestLife.count(), static_cast<std::int64_t>(std::clamp(seconds, 0.0, 3600.0) * 1000));
  claim.owner = hash128(claim.process.machine + " " + std::to_string(claim.process.pid) + " " +
                        std::to_string(random()) + " " + std::to_string(random()));
  return claim;
}

}  // namespace

std::unique_ptr<Lease> acquire_lease(const std::shared_ptr<File>& file, const WinnerKey& key, const Suits& suits,
                                     double seconds, const std::function<bool()>& stop) {
  Claim mine = new_claim(key.digest(), seconds);
  Watch watch;
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    mine.expires = unix_milliseconds() + mine.lifetime;
    const Answer answer = file->run("take a lease", Answer::kFree, [&](Database& db, bool writable) {
      return writable ? look(db, mine, suits, &watch) : Answer::kFree;
    });
    if (answer == Answer::kWinner || (answer == Answer::kWait && stop && stop())) return nullptr;
    if (answer == Answer::kFree) return std::make_unique<FreeLease>();
    if (answer == Answer::kGranted) return std::make_unique<HeldLease>(file, std::move(mine));
    std::this_thread::sleep_for(pause);
  }
}

std::int64_t live_leases(Database& db) {
  std::int64_t count = 0;
  const std::int64_t now = unix_milliseconds();
  Statement statement = db.prepare(std::string("SELECT ") + kColumns + " FROM leases");
  while (statement.step()) {
    const auto claim = claim_of(statement.cells());
    count += claim && !is_over(*claim, now);
  }
  return count;
}

void sweep_leases(Database& db) { db.prepare("DELETE FROM leases WHERE expires<?").bind(unix_milliseconds()).run(); }

}  // namespace gqa::cache
