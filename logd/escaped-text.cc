#include "logd/escaped-text.h"

#include <stdio.h>

#include "common/text/plain-text.h"

namespace talos::logd {

void addEscaped(kj::Vector<char>& out, kj::ArrayPtr<const char> text, size_t room, bool json) {
  constexpr kj::StringPtr kCut = "..."_kj;
  auto start = out.size(), fits = start;
  bool cut = false;
  for (auto rest = text.asBytes(); rest.size() > 0;) {
    auto character = firstCharacter(rest);
    auto before = out.size();
    if (!character.valid) {
      out.addAll(kReplacement);
    } else if (json && (character.code == '"' || character.code == '\\')) {
      out.add('\\');
      out.add(static_cast<char>(character.code));
    } else if (character.code < 0x20 || (character.code >= 0x7f && character.code < 0xa0)) {
      char escaped[8];
      snprintf(escaped, sizeof escaped, json ? "\\u%04x" : "\\x%02x", character.code);
      out.addAll(kj::StringPtr(escaped));
    } else {
      out.addAll(rest.slice(0, character.bytes).asChars());
    }
    if (out.size() - start > room) {
      out.truncate(before);
      cut = true;
      break;
    }
    if (out.size() - start + kCut.size() <= room) fits = out.size();
    rest = rest.slice(character.bytes, rest.size());
  }
  if (!cut) return;
  out.truncate(fits);
  if (room >= kCut.size()) out.addAll(kCut);
}

}  // namespace talos::logd
