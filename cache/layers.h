// layers.h: several files as one store.
// Owns: the order of look-ups, and that only the first file is ever written: what a winner of it needs from beneath is
// copied into it, so that it stays whole without the files beneath.
// Never: opens a file itself, or compares versions: whoever asks for rows does.
// Threads: as store.h.
#pragma once

#include <memory>
#include <vector>

#include "cache/store.h"

namespace gqa::cache {

// `first` may be writable; those `beneath` are asked in order and never written.
std::unique_ptr<Store> layered(std::unique_ptr<Store> first, std::vector<std::unique_ptr<Store>> beneath);

}  // namespace gqa::cache
