// layers.cc: see layers.h.
#include "cache/layers.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "cache/layer_paths.h"

namespace gqa::cache {
namespace {

template <class Row, class KeyOf>
void keep_first_of_each(std::vector<Row>* rows, const KeyOf& key_of) {
  std::unordered_set<std::string> seen;
  std::erase_if(*rows, [&](const Row& row) { return !seen.insert(key_of(row)).second; });
}

std::string id_of(const WinnerRow& row) { return row.id(); }
std::string key_of(const KernelRow& row) { return row.key; }

// A file that lives for one export. What SQLite keeps beside it goes with it.
class Scratch {
 public:
  explicit Scratch(const std::string& beside) : path_(beside + ".layers-" + std::to_string(getpid())) { remove(); }
  ~Scratch() { remove(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  void remove() const {
    std::error_code ignored;
    for (const char* end : {"", "-wal", "-shm", "-journal"}) std::filesystem::remove(path_ + end, ignored);
  }
  const std::string path_;
};

class Layers : public Store {
 public:
  Layers(std::unique_ptr<Store> first, std::vector<std::unique_ptr<Store>> beneath) {
    all_.push_back(std::move(first));
    std::move(beneath.begin(), beneath.end(), std::back_inserter(all_));
  }

  // With nothing to write to, what lies beneath can still be read.
  Mode mode() const override {
    if (first().mode() != Mode::kOff) return first().mode();
    const auto readable = [](const auto& layer) { return layer->mode() != Mode::kOff; };
    return std::any_of(all_.begin(), all_.end(), readable) ? Mode::kReadOnly : Mode::kOff;
  }

  std::vector<WinnerRow> find_winners(const WinnerKey& key, std::string_view compiler) override {
    std::vector<WinnerRow> rows;
    for (const auto& layer : all_) append(&rows, layer->find_winners(key, compiler));
    std::stable_sort(rows.begin(), rows.end(), [compiler](const WinnerRow& a, const WinnerRow& b) {
      return rank(a, compiler) < rank(b, compiler);
    });
    keep_first_of_each(&rows, id_of);
    return rows;
  }

  std::optional<KernelRow> find_kernel(const std::string& key) override {
    return first_found([&](Store& layer) { return layer.find_kernel(key); });
  }
  std::optional<KernelRow> find_kernel_of_any_compiler(const std::string& key) override {
    if (std::optional<KernelRow> own = find_kernel(key)) return own;
    return first_found([&](Store& layer) { return layer.find_kernel_of_any_compiler(key); });
  }

  bool put_kernel(const KernelRow& row) override { return first().put_kernel(row); }
  bool put_winner(const WinnerRow& row) override {
    if (first().mode() == Mode::kReadWrite) bring_kernels(row);
    return first().put_winner(row);
  }

  std::unique_ptr<Lease> acquire(const WinnerKey& key, const Suits& suits, const std::function<bool()>& stop) override {
    return first().acquire(key, suits, stop);
  }

  std::vector<WinnerRow> list_winners() override {
    std::vector<WinnerRow> rows;
    for (const auto& layer : all_) append(&rows, layer->list_winners());
    keep_first_of_each(&rows, id_of);
    return rows;
  }
  std::vector<KernelRow> list_kernels() override {
    std::vector<KernelRow> rows;
    for (const auto& layer : all_) append(&rows, layer->list_kernels());
    keep_first_of_each(&rows, key_of);
    return rows;
  }

  std::vector<Damage> verify(bool repair) override {
    std::vector<Damage> found = first().verify(repair);
    for (std::size_t at = 1; at < all_.size(); ++at) {
      for (Damage& damage : all_[at]->verify(false)) {
        damage.what += " (in " + all_[at]->path() + ", which is only read)";
        found.push_back(std::move(damage));
      }
    }
    return found;
  }

  std::string export_to(const std::string& path) override;
  std::string import_from(const std::string& path) override { return first().import_from(path); }
  Pruned forget(const std::string& id) override;
  Pruned prune(double unused_days, std::int64_t max_bytes) override { return first().prune(unused_days, max_bytes); }
  Stats stats() override;
  std::string path() override { return first().path(); }

  std::vector<std::string> take_warnings() override {
    std::vector<std::string> warnings;
    for (const auto& layer : all_) append(&warnings, layer->take_warnings());
    const std::lock_guard hold(mutex_);
    append(&warnings, std::exchange(warnings_, {}));
    return warnings;
  }

 private:
  Store& first() const { return *all_.front(); }

  // As Store::find_winners orders the rows of one file; within a rank the upper file goes first.
  static int rank(const WinnerRow& row, std::string_view compiler) {
    return (row.compiler == compiler ? 0 : 2) + (row.provisional ? 1 : 0);
  }

  template <class Row>
  static void append(std::vector<Row>* rows, std::vector<Row> more) {
    std::move(more.begin(), more.end(), std::back_inserter(*rows));
  }

  template <class Find>
  std::optional<KernelRow> first_found(const Find& find) {
    for (const auto& layer : all_) {
      if (std::optional<KernelRow> found = find(*layer)) return found;
    }
    return std::nullopt;
  }

  void bring_kernels(const WinnerRow& row) {
    for (const std::string& key : row.kernels()) {
      if (first().find_kernel(key)) continue;
      if (const std::optional<KernelRow> found = find_kernel(key)) first().put_kernel(*found);
    }
  }

  std::vector<std::unique_ptr<Store>> all_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::string> warnings_;
};

// From the lowest up: where two files have a winner of one key, import keeps the newer.
std::string Layers::export_to(const std::string& path) {
  const Scratch scratch(path);
  const std::unique_ptr<Store> whole = Store::open({as_layer(scratch.path()), Mode::kReadWrite});
  if (whole->mode() != Mode::kReadWrite) {
    const std::vector<std::string> why = whole->take_warnings();
    return "cannot export to " + path + (why.empty() ? "" : ": " + why.front());
  }
  for (auto layer = all_.rbegin(); layer != all_.rend(); ++layer) {
    if ((*layer)->mode() == Mode::kOff) continue;
    if (std::string why = whole->import_from((*layer)->path()); !why.empty()) return why;
  }
  return whole->export_to(path);
}

Pruned Layers::forget(const std::string& id) {
  const auto has = [&id](const WinnerRow& row) { return row.id() == id; };
  for (std::size_t at = 1; at < all_.size(); ++at) {
    const std::vector<WinnerRow> rows = all_[at]->list_winners();
    if (std::none_of(rows.begin(), rows.end(), has)) continue;
    const std::lock_guard hold(mutex_);
    warnings_.push_back("the winner " + id + " is in " + all_[at]->path() + ", which is only read beneath " +
                        first().path() + "; it is not forgotten. To remove it there, name that file alone");
    return {};
  }
  return first().forget(id);
}

Stats Layers::stats() {
  Stats sum = first().stats();
  for (std::size_t at = 1; at < all_.size(); ++at) {
    const Stats more = all_[at]->stats();
    sum.mode +=
        (at == 1 ? "; beneath it " : ", ") + (more.path.empty() ? "a file that is " : more.path + " ") + more.mode;
    sum.schema = std::max(sum.schema, more.schema);
    sum.kernels += more.kernels;
    sum.winners += more.winners;
    sum.provisional += more.provisional;
    sum.quarantined += more.quarantined;
    sum.file_bytes += more.file_bytes;
    sum.blob_bytes += more.blob_bytes;
    sum.raw_bytes += more.raw_bytes;
  }
  return sum;
}

}  // namespace

std::unique_ptr<Store> layered(std::unique_ptr<Store> first, std::vector<std::unique_ptr<Store>> beneath) {
  return std::make_unique<Layers>(std::move(first), std::move(beneath));
}

}  // namespace gqa::cache
