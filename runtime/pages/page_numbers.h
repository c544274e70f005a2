// page_numbers.h: which pages of a cache belong to which sequence.
// Owns: the free pages, how many sequences hold each page, each sequence's pages and tokens. A page is a number.
// Never: touches what lies in a page; cached_pages.h copies, page_pool.h brings the two together.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "search/status.h"

namespace gqa {

// What one append did to one sequence, so that its pages can be copied and all of it undone.
struct PageGrowth {
  std::int64_t sequence;
  std::int64_t tokens_before;
  std::size_t pages_before;
  std::int32_t shared = -1, own = -1;  // the last page, where others hold it too, and what takes its place
};

class PageNumbers {
 public:
  static constexpr std::int64_t kAnyPages = std::numeric_limits<std::int64_t>::max();

  PageNumbers(std::int32_t pages, std::int32_t page);

  std::int64_t add();  // a sequence of no tokens
  // A sequence of the first `tokens` of another; -1: all of them. The pages are the other's.
  Status share(std::int64_t sequence, std::int64_t tokens, std::int64_t* copy);
  // Room for tokens[i] more in sequences[i], none of which may then have more than `most` pages. All or nothing: where
  // pages run out, all is as before.
  Status append(std::span<const std::int64_t> sequences, const std::int32_t* tokens, std::vector<PageGrowth>* growths,
                std::int64_t most = kAnyPages);
  void undo(const std::vector<PageGrowth>& growths);            // the last append's
  Status truncate(std::int64_t sequence, std::int64_t tokens);  // to its first ones
  // All or nothing: a sequence that is not there, or is there twice, leaves all as they are.
  Status free(std::span<const std::int64_t> sequences);

  Status tokens(std::int64_t sequence, std::int64_t* tokens) const;
  // A row of `columns` page numbers a sequence, 0 past its tokens. tokens: of each; may be null.
  Status table(std::span<const std::int64_t> sequences, std::int64_t columns, std::int32_t* table,
               std::int32_t* tokens) const;
  std::int32_t free_pages() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t pages() const { return static_cast<std::int32_t>(holders_.size()); }
  std::int32_t page() const { return page_; }

 private:
  struct Sequence {
    std::vector<std::int32_t> pages;
    std::int64_t tokens = 0;
  };
  Status find(std::int64_t sequence, const Sequence** found) const;
  Status grow(std::int64_t id, Sequence* sequence, std::int32_t tokens, std::vector<PageGrowth>* growths);
  Status exhausted(std::int64_t sequence, std::int64_t needed) const;
  Status within(std::int64_t id, const Sequence& sequence, std::int32_t tokens, std::int64_t most) const;
  std::int64_t pages_for(std::int64_t tokens) const { return (tokens + page_ - 1) / page_; }
  std::int32_t take();
  void release(std::int32_t page);

  const std::int32_t page_;
  const std::int64_t first_sequence_;  // no other pool of the process has numbers from here on
  std::int64_t next_sequence_;
  std::vector<std::int32_t> free_;     // the last is the next that is given
  std::vector<std::int32_t> holders_;  // sequences a page
  std::unordered_map<std::int64_t, Sequence> sequences_;
};

}  // namespace gqa
