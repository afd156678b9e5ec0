#include "talosctl/cli/wait-line.h"

#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {
namespace {

constexpr auto kTurn = 200 * kj::MILLISECONDS, kSilence = 1 * kj::SECONDS;
constexpr kj::StringPtr kSigns[] = {"◰"_kj, "◳"_kj, "◲"_kj, "◱"_kj};

}  // namespace

kj::StringPtr turningSign(unsigned turn) {
  return kSigns[turn % kj::size(kSigns)];
}

WaitLine::WaitLine(Console& below, kj::Timer& timer)
    : below(below), timer(timer), heard(timer.now()), turning(turn().eagerlyEvaluate(nullptr)) {}

WaitLine::~WaitLine() noexcept(false) {
  erase();
}

void WaitLine::out(kj::ArrayPtr<const char> text) {
  if (below.outIsTerminal()) {
    erase();
    written(text);
  }
  heard = timer.now();
  ++texts;
  below.out(text);
}

void WaitLine::err(kj::ArrayPtr<const char> text) {
  erase();
  written(text);
  heard = timer.now();
  ++texts;
  below.err(text);
}

void WaitLine::waiting(kj::StringPtr now) {
  if (what.size() == 0) heard = timer.now();
  what = printable(now);
  if (what.size() == 0) erase();
}

void WaitLine::written(kj::ArrayPtr<const char> text) {
  if (text.size() > 0) lineEnded = text.back() == '\n';
}

kj::Promise<void> WaitLine::turn() {
  if (!below.errIsTerminal()) co_return;
  for (;;) {
    co_await timer.afterDelay(kTurn);
    ++turns;
    if (what.size() > 0 && lineEnded && timer.now() - heard >= kSilence) draw();
  }
}

void WaitLine::draw() {
  auto text = kj::str(what, ": ", humanDuration((timer.now() - heard) / kj::SECONDS));
  below.err(kj::str("\r", turningSign(turns), " ",
                    firstCharacters(text, kj::max(below.columns(), 3u) - 3), "\x1b[K"));
  drawn = true;
}

void WaitLine::erase() {
  if (!drawn) return;
  drawn = false;
  below.err("\r\x1b[K"_kj);
}

}  // namespace talos::talosctl
