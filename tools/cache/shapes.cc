// shapes.cc: see shapes.h.
#include "tools/cache/shapes.h"

#include <CLI/App.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "search/problem/signature.h"
#include "search/text.h"
#include "tools/cache/errors.h"
#include "tools/cache/models.h"
#include "tools/cache/numbers.h"

namespace gqa::tools {
namespace {

using Json = nlohmann::ordered_json;

Problem parse_spec(const std::string& spec, const std::string& where) {
  Problem problem;
  if (const Status status = parse(plain_numbers(spec), &problem); !status.ok()) {
    throw Usage(where + " " + quote(spec) + ": " + status.message() + "; gqa-cache help spec has the grammar");
  }
  return problem;
}

// A value as SPEC writes it. A comma or an equals sign would let one value smuggle in another key.
std::string value_text(const std::string& key, const Json& value, const std::string& where) {
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_number_integer()) return value.dump();
  if (value.is_string()) {
    auto text = value.get<std::string>();
    if (text.find_first_of(",=") == std::string::npos) return text;
  }
  const std::string given = value.is_structured() ? std::string("an ") + value.type_name()
                                                  : quote(value.dump(-1, ' ', true, Json::error_handler_t::replace));
  throw Usage(where + ": " + quote(key) + " is " + given +
              "; expected a whole number, true, false, \"bf16\", \"f16\" or \"f32\"");
}

std::string spec_of(const Json& object, const std::string& where) {
  std::string spec;
  for (const auto& [key, value] : object.items()) {
    spec += (spec.empty() ? "" : ",") + key + "=" + value_text(key, value, where);
  }
  return spec;
}

Problem shape_of(const Json& element, const std::string& where) {
  if (element.is_string()) return parse_spec(element.get<std::string>(), where);
  if (element.is_object()) return parse_spec(spec_of(element, where), where);
  throw Usage(where + " is a JSON " + element.type_name() +
              "; expected a SPEC string or an object such as {\"hq\": 32, \"hk\": 8, \"sq\": 4096, \"d\": 128}");
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || !text) throw Usage("--shapes " + path + " cannot be read: " + std::strerror(errno));
  return text.str();
}

}  // namespace

void add_shape_options(CLI::App* command, ShapeOptions* options) {
  const auto add = [command](const char* name, std::vector<std::string>* values, const char* type, const char* help) {
    command->add_option(name, *values, help)->type_name(type)->allow_extra_args(false);
  };
  add("--shape", &options->specs, "SPEC",
      "A shape, e.g. hq=32,hk=8,sq=4096,d=128,causal, and ,lse where calls ask for log-sum-exp; repeatable. "
      "gqa-cache help spec has the grammar");
  add("--shapes", &options->files, "FILE", "A JSON array of SPEC strings, or objects with the same keys; repeatable");
  add("--model", &options->models, "NAME[,tp=N]",
      "A model's usual prefill and decode shapes, as one of N tensor-parallel ranks meets them; repeatable");
  add("--serve", &options->serves, "RANGE",
      "Instead: every call that serves the model in a range, as batch=1..256,kv=1..32k,page=16; repeatable. "
      "gqa-cache help serve explains it");
}

std::vector<Problem> shapes_from_json(const std::string& text, const std::string& origin) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw Usage(origin + " is not JSON: " + error.what());
  }
  if (!json.is_array()) {
    throw Usage(origin + " holds a JSON " + json.type_name() + "; expected an array of SPEC strings or objects");
  }
  std::vector<Problem> shapes;
  for (std::size_t i = 0; i < json.size(); ++i) {
    shapes.push_back(shape_of(json[i], origin + ", element " + std::to_string(i + 1)));
  }
  return shapes;
}

std::vector<Problem> read_shapes(const ShapeOptions& options) {
  std::vector<Problem> shapes;
  std::set<std::string> known;
  const auto add = [&](const std::vector<Problem>& more) {
    for (const Problem& problem : more) {
      const Problem wanted = Signature(problem).problem();
      if (known.insert(to_text(wanted)).second) shapes.push_back(wanted);
    }
  };
  for (const std::string& spec : options.specs) add({parse_spec(spec, "--shape")});
  for (const std::string& file : options.files) add(shapes_from_json(read_file(file), "--shapes " + file));
  if (!options.serves.empty() && options.models.empty())
    throw Usage("--serve " + quote(options.serves.front()) +
                " is given without a model: expected --model NAME beside it, as in --model llama-3-8b");
  for (const std::string& model : options.models) {
    if (options.serves.empty()) add(model_shapes(model));
    for (const std::string& serve : options.serves) add(serving_shapes(model, serve));
  }
  return shapes;
}

}  // namespace gqa::tools
