#include "talosctl/cli/progress-lines.h"

#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {

Progress::Progress(Console& console, kj::ArrayPtr<const kj::String> names)
    : console(console), names(names), texts(KJ_MAP(n, names) { return kj::str("…"); }) {}

kj::String Progress::line(size_t index) const {
  return printable(kj::str(names[index], ": ", texts[index]));
}

void Progress::set(size_t index, kj::StringPtr text) {
  if (texts[index] == text) return;
  texts[index] = kj::str(text);
  if (!console.drawsOnErr()) {
    console.err(kj::str(line(index), "\n"));
    return;
  }
  DrawnText lines;
  if (drawn) lines.up(texts.size());
  drawn = true;
  for (size_t i = 0; i < texts.size(); ++i) {
    // A line that wraps would break the count of lines.
    auto whole = line(i);
    auto shown = firstCharacters(whole, kj::max(console.columns(), 1u) - 1);
    lines.toLineStart().add(shown).clearToLineEnd().add("\n"_kj);
  }
  console.err(lines);
}

namespace {

constexpr auto kTurn = 200 * kj::MILLISECONDS, kSilence = 1 * kj::SECONDS;
constexpr kj::StringPtr kSigns[] = {"◰"_kj, "◳"_kj, "◲"_kj, "◱"_kj};

}  // namespace

kj::StringPtr turningSign(unsigned turn) {
  return kSigns[turn % kj::size(kSigns)];
}

WaitLine::WaitLine(Console& below, kj::Timer& timer)
    : below(below),
      timer(timer),
      lastOutput(timer.now()),
      turning(turn().eagerlyEvaluate(nullptr)) {}

WaitLine::~WaitLine() noexcept(false) {
  erase();
}

void WaitLine::write(Stream stream, kj::ArrayPtr<const char> bytes) {
  if (stream == Stream::kErr || below.outIsTerminal()) {
    erase();
    written(bytes);
  }
  lastOutput = timer.now();
  ++texts;
  below.write(stream, bytes);
}

void WaitLine::waiting(kj::StringPtr now) {
  if (what.size() == 0) lastOutput = timer.now();
  what = printable(now);
  if (what.size() == 0) erase();
}

void WaitLine::written(kj::ArrayPtr<const char> text) {
  if (text.size() > 0) lineEnded = text.back() == '\n';
}

kj::Promise<void> WaitLine::turn() {
  if (!below.drawsOnErr()) co_return;
  for (;;) {
    co_await timer.afterDelay(kTurn);
    ++turns;
    if (what.size() > 0 && lineEnded && timer.now() - lastOutput >= kSilence) draw();
  }
}

void WaitLine::draw() {
  auto text = kj::str(what, ": ", humanDuration((timer.now() - lastOutput) / kj::SECONDS));
  DrawnText line;
  line.toLineStart().add(turningSign(turns)).add(" "_kj);
  line.add(firstCharacters(text, kj::max(below.columns(), 3u) - 3)).clearToLineEnd();
  below.err(line);
  drawn = true;
}

void WaitLine::erase() {
  if (!drawn) return;
  drawn = false;
  below.err(DrawnText().toLineStart().clearToLineEnd());
}

}  // namespace talos::talosctl
