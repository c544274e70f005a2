// help.cc: `gqa-cache help [TOPIC]`: the help of everything in one place.
// Owns: the topics: each command, spec and serve.
// Never: words a command's help; the command does.
// Threads: one.
#include <CLI/App.hpp>
#include <memory>

#include "search/text.h"
#include "tools/cache/command.h"
#include "tools/cache/commands/spec.h"
#include "tools/cache/errors.h"
#include "tools/cache/models.h"
#include "tools/cache/suggestion.h"

namespace gqa::tools {
namespace {

std::vector<std::string> topics(const CLI::App& app) {
  std::vector<std::string> names = {"spec", "serve"};
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// An app's own; app.help() would give the help of the command that was parsed, which is this one.
std::string own_help(const CLI::App& app, const std::string& name) {
  return app.get_formatter()->make_help(&app, name, CLI::AppFormatMode::Normal);
}

std::string help_of(const CLI::App& app, const std::string& topic) {
  if (topic == "spec") return spec_text();
  if (topic == "serve") return serving_text();
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->check_name(topic)) return own_help(*command, app.get_name() + " " + command->get_name());
  }
  throw Usage("help knows no topic " + quote(topic) + "; expected one of " + list_of(topics(app)) +
              did_you_mean(topic, topics(app)));
}

}  // namespace

void add_help(CLI::App* app, Shared* shared) {
  CLI::App* command = new_command(app, shared, "help", "Print this text, a command's help, or the grammar of SPEC",
                                  "gqa-cache help spec", Lists::kNo);
  const auto topic = std::make_shared<std::string>();
  const CLI::Option* given =
      command->add_option("TOPIC", *topic, "A command, spec: how --shape is written, or serve: how --serve is");
  command->callback([app, shared, topic, given] {
    shared->run = [app, topic, given] {
      print(given->count() == 0 ? own_help(*app, app->get_name()) : help_of(*app, *topic));
      return 0;
    };
  });
}

}  // namespace gqa::tools
