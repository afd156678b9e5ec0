// Foreign text as text of a message: valid UTF-8 without control characters.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::logd {

constexpr kj::StringPtr kReplacement = "\xef\xbf\xbd"_kj;  // of what is no UTF-8

// Writes the text until `room` bytes are used; then it ends in "...". Nothing is split: no
// character, no escape. `json`: as between the quotes of a JSON string.
void addEscaped(kj::Vector<char>& out, kj::ArrayPtr<const char> text, size_t room, bool json);

}  // namespace talos::logd
