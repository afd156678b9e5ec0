// Prints a rollout. stdout has its result: lines of text, or with JSON a line for each event. All
// other lines are on stderr.
#pragma once

#include "common/kube/json.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

class RolloutLines {
 public:
  RolloutLines(Console& console, bool json) : console(console), json(json) {}
  KJ_DISALLOW_COPY_AND_MOVE(RolloutLines);

  // Prints a line of the result; with JSON it is a note.
  void line(kj::StringPtr text);
  // Prints several lines of the result.
  void text(kj::StringPtr lines);
  // Prints a line on stderr.
  void note(kj::StringPtr text);
  // Prints a question on stderr, without a line end.
  void question(kj::StringPtr text);
  // Prints an event of the result as a line of JSON; nothing without JSON.
  void event(const kube::Json& event);

 protected:
  Console& console;
  const bool json;
};

// Returns the addresses as Talos prints a list: ["10.5.0.2" "10.5.0.3"].
kj::String quotedList(kj::ArrayPtr<const kj::String> addresses);

}  // namespace talos::talosctl
