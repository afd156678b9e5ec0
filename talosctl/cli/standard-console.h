// The standard streams of this process.
//
// Writes block: the client does nothing else while its reader is slow, and the node's flow control
// does the rest. During a blocked write, a SIGINT, SIGTERM or SIGHUP ends the process at once. When
// the reader of stdout is gone, the process dies of SIGPIPE, as a filter does.
//
// On a terminal, a locale without UTF-8 (LC_ALL=C) gets text in ASCII; a file or a pipe gets the
// bytes as they are.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

class StandardConsole final : public Console {
 public:
  void write(Stream stream, kj::ArrayPtr<const char> bytes) override;
  bool outIsTerminal() const override;
  bool errIsTerminal() const override;
  bool inIsTerminal() const override;
  bool canDraw() const override;
  unsigned columns() const override;
  unsigned rows() const override;
  uint64_t written() const override { return texts; }

 private:
  uint64_t texts = 0;
};

}  // namespace talos::talosctl
