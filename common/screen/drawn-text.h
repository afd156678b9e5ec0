// Text for a terminal whose escape sequences are all ours: foreign text is escaped when it is added
// (common/text/foreign-text.h), and only functions of this class write sequences. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/screen/canvas.h"

namespace talos {

class DrawnText {
 public:
  DrawnText() = default;
  explicit DrawnText(kj::ArrayPtr<const char> text) { add(text); }

  // Adds text of any source, escaped. Line breaks and tabs stay; text with a look is within a line.
  DrawnText& add(kj::ArrayPtr<const char> text, Look look = Look::kPlain);
  DrawnText& add(const DrawnText& other);
  // Adds the cells that differ from the canvas before.
  DrawnText& add(const Canvas& canvas, kj::Maybe<const Canvas&> before, Colors colors);

  DrawnText& up(size_t lines);
  DrawnText& toLineStart();
  DrawnText& clearToLineEnd();
  DrawnText& clearBelow();
  DrawnText& enterScreen();  // switches to the alternate screen, without a cursor
  DrawnText& leaveScreen();

  kj::ArrayPtr<const char> asPtr() const { return bytes.asPtr(); }

 private:
  kj::Vector<char> bytes;
};

}  // namespace talos
