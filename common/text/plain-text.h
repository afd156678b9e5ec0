// Text that a terminal shows and does not interpret. Foreign bytes; pure.
// common/text/foreign-text.h converts any other text to such text.
#pragma once

#include <kj/string.h>

namespace talos {

struct PlainCharacter {
  size_t bytes;   // 1 for invalid UTF-8: truncated, overlong, a surrogate, too large
  bool valid;     // true if it is UTF-8
  uint32_t code;  // of Unicode, if valid; below 0x10000 for every character that is not plain
  // False for invalid UTF-8, a control character (C0, DEL, C1), a character that changes the
  // direction or the lines of the text around it, and one without width: a reader would see another
  // text than a program.
  bool plain;
};

// Returns the first character of a text that is not empty.
PlainCharacter firstCharacter(kj::ArrayPtr<const kj::byte> text);

// A character of Unicode in UTF-8.
class Utf8 {
 public:
  explicit Utf8(uint32_t code);
  kj::ArrayPtr<const char> asPtr() const { return kj::arrayPtr(bytes, count); }

 private:
  char bytes[4];
  size_t count;
};

// Returns true for an empty text too.
bool isPlainText(kj::StringPtr text);

}  // namespace talos
