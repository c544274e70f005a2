// doctor.cc: `gqa-cache doctor`: what a first call would find here, and what is missing.
// Owns: the command's words.
// Never: changes anything.
// Threads: one.
#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cache/command.h"
#include "tools/cache/diagnosis.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

Json json_of(const CacheFile& file) {
  return {{"path", file.path},   {"exists", file.exists},   {"writable", file.writable}, {"owner", file.owner},
          {"bytes", file.bytes}, {"winners", file.winners}, {"written", file.first},     {"complaint", file.complaint}};
}

Json json_of(const Diagnosis& found) {
  Json json = {{"version", GQA_TOOL_VERSION},  {"device", found.device},  {"gpu", found.gpu},
               {"driver", found.driver},       {"nvrtc", found.nvrtc},    {"caches", Json::array()},
               {"first_calls", Json::array()}, {"missing", Json::array()}};
  for (const CacheFile& file : found.caches) json["caches"].push_back(json_of(file));
  for (const FirstCall& call : found.first_calls) {
    const Outlook& outlook = call.outlook;
    json["first_calls"].push_back({{"call", call.name},
                                   {"problem", call.problem},
                                   {"ready", outlook.ready > 0},
                                   {"kernels_to_compile", outlook.to_compile},
                                   {"seconds", outlook.seconds},
                                   {"most_seconds", outlook.most_seconds}});
  }
  for (const Missing& missing : found.missing)
    json["missing"].push_back({{"what", missing.what}, {"mend", missing.mend}});
  return json;
}

std::string told(const CacheFile& file) {
  const std::string role = file.first ? "" : "read only, beneath: ";
  if (!file.complaint.empty()) return role + file.path + ": " + file.complaint;
  if (!file.exists) return role + file.path + ": not there yet; the first call that tunes begins it";
  return role + file.path + ": " + counted(file.winners, "winner") + ", " + bytes_text(file.bytes) + ", owned by " +
         file.owner + (file.first && !file.writable ? ", cannot be written" : "");
}

std::string told(const FirstCall& call) {
  if (call.outlook.ready > 0) return call.name + ": is known; a look-up and a launch";
  return call.name + ": tunes for about " + seconds_text(call.outlook.seconds) + ", at most " +
         seconds_text(call.outlook.most_seconds) + "; then it is a look-up and a launch";
}

// The names' column is as wide as the longest and two spaces.
std::string padded(std::string name) {
  name.resize(12, ' ');
  return name;
}

std::string labelled(const std::string& name, const std::string& text) { return padded(name) + text + "\n"; }

std::string told(const Diagnosis& found, const Terminal& terminal) {
  std::string text = labelled("version", GQA_TOOL_VERSION);
  text += labelled("device", found.device.empty() ? "none" : found.device);
  text += labelled("driver", found.driver);
  text += labelled("NVRTC", found.nvrtc + (found.gpu || found.device.empty() ? "" : " (the CPU needs none)"));
  for (const CacheFile& file : found.caches) text += labelled("cache", told(file));
  for (const FirstCall& call : found.first_calls) text += labelled("first call", told(call));
  if (found.missing.empty()) return text + terminal.green("nothing is missing") + "\n";
  for (const Missing& missing : found.missing)
    text += terminal.red(padded("missing")) + missing.what + "\n" + labelled("", "mended by: " + missing.mend);
  return text;
}

int doctor(const Shared& shared, const std::string& device) {
  const Diagnosis found = diagnose(device, shared.db);
  if (shared.json)
    print_json(json_of(found));
  else
    print(told(found, Terminal(stdout)));
  return found.missing.empty() ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App* app, Shared* shared) {
  CLI::App* command = new_command(
      app, shared, "doctor",
      "Say what a first call would find here: device, driver, NVRTC, cache files, how long it takes, and what is "
      "missing with what mends it. Changes nothing; exit code 1 if something is missing",
      "gqa-cache doctor --device cuda", Lists::kYes);
  const auto device = std::make_shared<std::string>("auto");
  command->add_option("--device", *device, "auto, cuda, cuda:N or host")->type_name("NAME")->capture_default_str();
  command->callback([shared, device] { shared->run = [shared, device] { return doctor(*shared, *device); }; });
}

}  // namespace gqa::tools
