#include "common/screen/drawn-text.h"

#include "common/text/foreign-text.h"

namespace talos {

DrawnText& DrawnText::add(kj::ArrayPtr<const char> text, Look look) {
  auto shown = printableText(text);
  if (look == Look::kPlain) {
    bytes.addAll(shown);
  } else {
    bytes.addAll(renditionOf(look, Colors::kAnsi));
    bytes.addAll(shown);
    bytes.addAll(renditionOf(Look::kPlain, Colors::kAnsi));
  }
  return *this;
}

DrawnText& DrawnText::add(const DrawnText& other) {
  bytes.addAll(other.bytes);
  return *this;
}

DrawnText& DrawnText::add(const Canvas& canvas, kj::Maybe<const Canvas&> before, Colors colors) {
  bytes.addAll(canvas.ansi(before, colors));
  return *this;
}

DrawnText& DrawnText::up(size_t lines) {
  bytes.addAll(kj::str("\x1b[", lines, "A"));
  return *this;
}

DrawnText& DrawnText::toLineStart() {
  bytes.add('\r');
  return *this;
}

DrawnText& DrawnText::clearToLineEnd() {
  bytes.addAll("\x1b[K"_kj);
  return *this;
}

DrawnText& DrawnText::clearBelow() {
  bytes.addAll("\x1b[J"_kj);
  return *this;
}

DrawnText& DrawnText::enterScreen() {
  bytes.addAll("\x1b[?1049h\x1b[?25l"_kj);
  return *this;
}

DrawnText& DrawnText::leaveScreen() {
  bytes.addAll("\x1b[0m\x1b[?25h\x1b[?1049l"_kj);
  return *this;
}

}  // namespace talos
