// not_cached.h: what is said where the cache has no program for a call and nothing may be tuned.
// Owns: the refusal of such a call, with the line of a shell that would have made it unnecessary.
// Never: looks into the cache.
// Threads: pure functions.
#pragma once

#include <string>

#include "search/device_spec.h"
#include "search/status.h"

namespace gqa {

// `signature`: Workload::signature(). `cache`: the file's path; "": the cache is off. A graph has no such line.
Status not_cached(const std::string& signature, const DeviceSpec& device, const std::string& cache);

// "gqa-cache --db '/my caches/a.db' warm --device host --shape b=1,hq=32,...", as a shell takes it: without --db where
// the file is the default one.
std::string warming_line(const std::string& signature, const DeviceSpec& device, const std::string& cache);

}  // namespace gqa
