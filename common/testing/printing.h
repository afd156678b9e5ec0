// Lets gtest print KJ's strings as text.
#pragma once

#include <kj/string.h>

#include <ostream>

namespace kj {
inline void PrintTo(const String& text, std::ostream* out) {
  *out << '"' << text.cStr() << '"';
}
inline void PrintTo(const StringPtr& text, std::ostream* out) {
  *out << '"' << text.cStr() << '"';
}
}  // namespace kj
