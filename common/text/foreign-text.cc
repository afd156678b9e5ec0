#include "common/text/foreign-text.h"

#include "common/text/plain-text.h"

namespace talos {
namespace {

constexpr kj::StringPtr kHex = "0123456789abcdef"_kj;
constexpr kj::StringPtr kReplacement = "\xef\xbf\xbd"_kj;  // U+FFFD
constexpr kj::StringPtr kCut = "..."_kj;

void addBytes(kj::Vector<char>& out, kj::ArrayPtr<const kj::byte> bytes) {
  for (auto b : bytes) {
    out.addAll("\\x"_kj);
    out.add(kHex[b >> 4]);
    out.add(kHex[b & 15]);
  }
}

// Adds the escape of a character that is valid and not plain.
void addCode(kj::Vector<char>& out, uint32_t code) {
  switch (code) {
    case '\n':
      return out.addAll("\\n"_kj);
    case '\t':
      return out.addAll("\\t"_kj);
    case '\r':
      return out.addAll("\\r"_kj);
    default:
      out.addAll("\\u"_kj);
      for (int shift = 12; shift >= 0; shift -= 4) out.add(kHex[code >> shift & 15]);
  }
}

void addCharacter(kj::Vector<char>& out, PlainCharacter character,
                  kj::ArrayPtr<const kj::byte> bytes, Surface surface) {
  bool quoted = surface != Surface::kTerminal;
  if (character.plain) {
    if (quoted && (character.code == '"' || character.code == '\\')) out.add('\\');
    out.addAll(bytes.asChars());
  } else if (surface != Surface::kJson) {
    if (surface == Surface::kLog && bytes[0] == '\n') return out.addAll("\\n"_kj);
    addBytes(out, bytes);
  } else if (character.valid) {
    addCode(out, character.code);
  } else {
    out.addAll(kReplacement);
  }
}

kj::String take(kj::Vector<char>& out) {
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

}  // namespace

void addEscaped(kj::Vector<char>& out, kj::ArrayPtr<const char> text, Surface surface,
                size_t room) {
  auto start = out.size(), fits = start;
  for (auto rest = text.asBytes(); rest.size() > 0;) {
    auto character = firstCharacter(rest);
    auto before = out.size();
    addCharacter(out, character, rest.slice(0, character.bytes), surface);
    if (out.size() - start > room) {
      out.truncate(room >= kCut.size() ? fits : before);
      if (room >= kCut.size()) out.addAll(kCut);
      return;
    }
    if (out.size() - start + kCut.size() <= room) fits = out.size();
    rest = rest.slice(character.bytes, rest.size());
  }
}

void addQuoted(kj::Vector<char>& out, kj::ArrayPtr<const char> text, Surface surface) {
  out.add('"');
  addEscaped(out, text, surface);
  out.add('"');
}

kj::String jsonString(kj::StringPtr text) {
  kj::Vector<char> out(text.size() + 3);
  addQuoted(out, text, Surface::kJson);
  return take(out);
}

kj::String jsonList(kj::ArrayPtr<const kj::String> texts) {
  return kj::str("[", kj::strArray(KJ_MAP(t, texts) { return jsonString(t); }, ", "), "]");
}

kj::String printable(kj::StringPtr text) {
  kj::Vector<char> out(text.size() + 1);
  addEscaped(out, text, Surface::kTerminal);
  return take(out);
}

kj::String printableText(kj::ArrayPtr<const char> text) {
  kj::Vector<char> out(text.size() + 1);
  for (size_t i = 0, start = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != '\n' && text[i] != '\t') continue;
    bool ended = i < text.size() && text[i] == '\n' && i > start && text[i - 1] == '\r';
    addEscaped(out, text.slice(start, ended ? i - 1 : i), Surface::kTerminal);
    if (i < text.size()) out.add(text[i]);
    start = i + 1;
  }
  return take(out);
}

kj::String fieldText(kj::ArrayPtr<const char> text, size_t most) {
  kj::Vector<char> out(kj::min(text.size(), most) + 1);
  for (auto rest = text.asBytes(); rest.size() > 0;) {
    auto character = firstCharacter(rest);
    bool blank = rest[0] == '\n' || rest[0] == '\t' || rest[0] == '\r';
    auto bytes = character.plain ? rest.slice(0, character.bytes).asChars()
                                 : (blank ? " "_kj : "?"_kj).asArray();
    if (out.size() + bytes.size() > most) break;
    out.addAll(bytes);
    rest = rest.slice(character.bytes, rest.size());
  }
  return take(out);
}

}  // namespace talos
