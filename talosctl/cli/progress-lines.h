// Shows the progress of several nodes on stderr: on a terminal one line for each that is rewritten
// in place, otherwise a plain line for each change.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

class Progress {
 public:
  Progress(Console& console, kj::ArrayPtr<const kj::String> names);
  size_t size() const { return texts.size(); }
  void set(size_t index, kj::StringPtr text);
  // Marks the node as failed, so that its line on a terminal no longer says that it waits. The
  // command prints the reason when all nodes have ended.
  void fail(size_t index) {
    if (console.errIsTerminal()) set(index, "failed");
  }

 private:
  Console& console;
  kj::ArrayPtr<const kj::String> names;
  kj::Array<kj::String> texts;
  bool drawn = false;

  kj::String line(size_t index) const;
};

}  // namespace talos::talosctl
