// The line of a terminal that shows that a command waits: a sign that turns, the reason, and the
// time since the last output: "◳ waiting for 10.0.0.2: 12s".
//
// It is on stderr, and only where that is a terminal. It appears after a second in which nothing
// was written, and is erased before anything else is; so the output is the same with and without
// it. It does not appear behind a line that has no end yet: a question, or a line that is being
// rewritten.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// The sign of this turn.
kj::StringPtr turningSign(unsigned turn);

class WaitLine final : public Console {
 public:
  // Both outlive it.
  WaitLine(Console& below, kj::Timer& timer);
  ~WaitLine() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(WaitLine);

  void write(Stream stream, kj::ArrayPtr<const char> bytes) override;
  bool outIsTerminal() const override { return below.outIsTerminal(); }
  bool errIsTerminal() const override { return below.errIsTerminal(); }
  bool inIsTerminal() const override { return below.inIsTerminal(); }
  unsigned columns() const override { return below.columns(); }
  unsigned rows() const override { return below.rows(); }
  uint64_t written() const override { return texts; }  // the line, which comes and goes, is none
  void waiting(kj::StringPtr what) override;

 private:
  Console& below;
  kj::Timer& timer;
  kj::String what;        // empty: nothing
  kj::TimePoint heard;    // when something was written, or the wait began
  bool drawn = false;     // the line is there
  bool lineEnded = true;  // the cursor is at the begin of a line
  unsigned turns = 0;
  uint64_t texts = 0;
  kj::Promise<void> turning;

  kj::Promise<void> turn();
  void draw();
  void erase();
  void written(kj::ArrayPtr<const char> text);
};

}  // namespace talos::talosctl
