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
    if (console.drawsOnErr()) set(index, "failed");
  }

 private:
  Console& console;
  kj::ArrayPtr<const kj::String> names;
  kj::Array<kj::String> texts;
  bool drawn = false;

  kj::String line(size_t index) const;
};

// A line on a terminal that shows that a command waits: a turning sign, the reason, and the time
// since the last output: "◳ waiting for 10.0.0.2: 12s".
//
// The line is on stderr, and only if stderr is a terminal. It appears after a second without output
// and is erased before any other text is written, so the output is the same with and without it. It
// does not appear after an unfinished line: a question, or a line that is being rewritten.

// Returns the sign to draw at this turn.
kj::StringPtr turningSign(unsigned turn);

class WaitLine final : public Console {
 public:
  // `below` and `timer` must outlive this object.
  WaitLine(Console& below, kj::Timer& timer);
  ~WaitLine() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(WaitLine);

  void write(Stream stream, kj::ArrayPtr<const char> bytes) override;
  bool outIsTerminal() const override { return below.outIsTerminal(); }
  bool errIsTerminal() const override { return below.errIsTerminal(); }
  bool inIsTerminal() const override { return below.inIsTerminal(); }
  bool canDraw() const override { return below.canDraw(); }
  unsigned columns() const override { return below.columns(); }
  unsigned rows() const override { return below.rows(); }
  // Does not count this line, which appears and disappears.
  uint64_t written() const override { return texts; }
  void waiting(kj::StringPtr what) override;

 private:
  Console& below;
  kj::Timer& timer;
  kj::String what;           // empty: no line
  kj::TimePoint lastOutput;  // time of the last output, or when the wait began
  bool drawn = false;        // the line is on the screen
  bool lineEnded = true;     // the cursor is at the beginning of a line
  unsigned turns = 0;
  uint64_t texts = 0;
  kj::Promise<void> turning;

  kj::Promise<void> turn();
  void draw();
  void erase();
  void written(kj::ArrayPtr<const char> text);
};

}  // namespace talos::talosctl
