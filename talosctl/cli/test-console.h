// Dependencies of commands for tests: a console that keeps its output, an environment that is a
// map, an event loop.
#pragma once

#include <kj/map.h>

#include "talosctl/cli/command.h"

namespace talos::talosctl {

class TestConsole final : public Console {
 public:
  void write(Stream stream, kj::ArrayPtr<const char> bytes) override {
    ++texts;
    (stream == Stream::kOut ? stdoutText : stderrText).addAll(bytes);
  }
  bool outIsTerminal() const override { return terminal; }
  bool errIsTerminal() const override { return terminal && !errRedirected; }
  bool inIsTerminal() const override { return terminal; }
  bool canDraw() const override { return !dumb; }
  unsigned columns() const override { return 80; }
  unsigned rows() const override { return 24; }
  uint64_t written() const override { return texts; }
  void waiting(kj::StringPtr what) override { awaited = kj::str(what); }

  kj::String takeOut() { return take(stdoutText); }
  kj::String takeErr() { return take(stderrText); }
  bool terminal = false, errRedirected = false, dumb = false;
  kj::String awaited;  // what the command waits for

 private:
  kj::Vector<char> stdoutText, stderrText;
  uint64_t texts = 0;
  static kj::String take(kj::Vector<char>& text) {
    auto result = kj::heapString(text.asPtr());
    text.clear();
    return result;
  }
};

struct FixedClock final : public kj::Clock {
  kj::Date time = kj::UNIX_EPOCH + 1'615'000'000 * kj::SECONDS;  // 2021-03-06T03:06:40Z
  kj::Date now() const override { return time; }
};

struct ConsoleFixture {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  TestConsole console;
  FixedClock clock;
  kj::TreeMap<kj::String, kj::String> environment;
  Dependencies deps{.lowLevel = *io.lowLevelProvider,
                    .port = io.unixEventPort,
                    .timer = io.provider->getTimer(),
                    .clock = clock,
                    .console = console,
                    .environment = [this](kj::StringPtr name) -> kj::Maybe<kj::String> {
                      KJ_IF_MAYBE (value, environment.find(name)) return kj::str(*value);
                      return nullptr;
                    }};
};

}  // namespace talos::talosctl
