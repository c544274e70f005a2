// json.h: JSON as evidence is made of it and read from it.
// Owns: Json, and how it becomes text.
// Never: included by a header: nlohmann's takes longer to compile than most files of this project. Headers pass texts.
// Threads: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gqa {

using Json = nlohmann::ordered_json;

// Text that is not UTF-8 (a compiler's message) does not throw.
inline std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace gqa
