// Prints a rollout. stdout has its result: lines of text, or each event as a line of JSON or a YAML
// document. All other lines are on stderr.
#pragma once

#include "common/kube/json.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

enum class EventFormat { kText, kJson, kYaml };
// Returns the form that --output names: text, json, yaml.
EventFormat eventFormatNamed(kj::StringPtr output);
// Renders an event: a line of JSON, or a YAML document after "---". Empty for text.
kj::String renderEvent(const kube::Json& event, EventFormat format);

class RolloutLines {
 public:
  RolloutLines(Console& console, EventFormat format) : console(console), format(format) {}
  KJ_DISALLOW_COPY_AND_MOVE(RolloutLines);

  // Prints a line of the result; with events it is a note.
  void line(kj::StringPtr text);
  // Prints several lines of the result.
  void text(kj::StringPtr lines);
  // Prints a line on stderr.
  void note(kj::StringPtr text);
  // Prints a question on stderr, without a line end.
  void question(kj::StringPtr text);
  // Prints an event of the result; nothing with text.
  void event(const kube::Json& event);

 protected:
  Console& console;
  const EventFormat format;
};

// Returns the addresses as Talos prints a list: ["10.5.0.2" "10.5.0.3"].
kj::String quotedList(kj::ArrayPtr<const kj::String> addresses);

}  // namespace talos::talosctl
