// rows.h: rows of the cache as JSON, and finding them by the first digits of their key.
// Owns: the JSON of a winner and of a kernel, the same in every listing; key prefixes.
// Never: prints.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "tools/cache/command.h"

namespace gqa::tools {

Json winner_json(const cache::WinnerRow& row);  // without the evidence
Json kernel_json(const cache::KernelRow& row);  // without source and code

// A winner of attention: its problem, its candidate. A winner of a user's graph: the first digits of the graph's digest
// with its config; what its program is, and the thread plans of its kernels.
std::string shape_text(const cache::WinnerRow& row);
std::string short_shape(const cache::WinnerRow& row);  // the same SPEC without the items that say what is the default
std::string candidate_text(const cache::WinnerRow& row);
bool is_graph(const cache::WinnerRow& row);

// Written by the tuner, but perhaps of another version: whatever is not there is left out.
Json evidence_of(const cache::WinnerRow& row);
Json losers_of(const cache::WinnerRow& row);  // the attempts that did not win, the fastest first, those untimed last
// Members of what was written so: 0 and "" where they are not there.
double number_of(const Json& json, const char* key);
std::string text_of(const Json& json, const char* key);
// "12.3 us, spread 0.1 us, at 1980 MHz"; of a provisional winner, what makes it one, too.
std::string measured_text(const cache::WinnerRow& row);

// "nvrtc 13.0" of the name with version and options.
std::string compiler_text(const std::string& compiler);

// "sm_90a" of the identity text that a winner is bound to.
std::string arch_of(const cache::WinnerRow& row);

struct Found {
  std::vector<cache::WinnerRow> winners;  // one at most
  std::vector<cache::KernelRow> kernels;  // without blobs; one at most, and none if there is a winner
};
// The one row whose key begins with the prefix: a winner's id or a kernel's key. Throws Usage if it is no beginning
// of a key, Failure if there is none or more than one.
Found find_row(cache::Store& store, const std::string& prefix);
// The same of winners alone: a kernel's key is refused as one.
cache::WinnerRow find_winner_row(cache::Store& store, const std::string& prefix);

}  // namespace gqa::tools
