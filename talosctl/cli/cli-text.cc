#include "talosctl/cli/cli-text.h"

#include <string.h>
#include <time.h>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/text/plain-text.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {

kj::ArrayPtr<const char> firstCharacters(kj::ArrayPtr<const char> text, size_t count) {
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xc0) != 0x80 && count-- == 0) return text.slice(0, i);
  }
  return text;
}

kj::String messageText(const kj::Exception& e) {
  return kj::heapString(withoutLastBreaks(printableText(messageOf(e))));
}

kj::String shellQuoted(kj::StringPtr text) {
  bool plain = text.size() > 0;
  for (char c : text) {
    plain = plain && (('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
                      strchr("/._-+@:,=", c) != nullptr);
  }
  if (plain) return kj::str(text);
  kj::Vector<char> quoted;
  for (char c : text) {
    if (c == '\'') quoted.addAll("'\\'"_kj);
    quoted.add(c);
  }
  return kj::str("'", quoted, "'");
}

kj::String rfc3339(uint64_t nanoseconds) {
  time_t seconds = nanoseconds / 1'000'000'000;
  struct tm t;
  char buffer[32];
  gmtime_r(&seconds, &t);
  strftime(buffer, sizeof(buffer), "%Y-%m-%dT%H:%M:%SZ", &t);
  return kj::heapString(buffer);
}

kj::String fixed(uint64_t value, uint64_t unit, unsigned decimals) {
  uint64_t scale = 1;
  for (unsigned i = 0; i < decimals; ++i) scale *= 10;
  auto scaled = (unsigned __int128)(value)*scale;
  uint64_t rounded = uint64_t((scaled + unit / 2) / unit);
  auto fraction = kj::str(rounded % scale);
  if (decimals == 0) return kj::str(rounded);
  return kj::str(rounded / scale, ".", kj::repeat('0', decimals - fraction.size()), fraction);
}

kj::String age(uint64_t then, uint64_t now) {
  return humanDuration(now > then ? int64_t((now - then + 500'000'000) / 1'000'000'000) : 0);
}

kj::String durationText(kj::Duration duration) {
  if (duration % (1 * kj::SECONDS) != 0 * kj::SECONDS)
    return kj::str(duration / kj::MILLISECONDS, "ms");
  return humanDuration(duration / kj::SECONDS);
}

bool isUtf8Locale(kj::StringPtr lcAll, kj::StringPtr lcCtype, kj::StringPtr lang) {
  for (auto value : {lcAll, lcCtype, lang}) {
    if (value.size() == 0) continue;
    auto lower = kj::str(value);
    for (char& c : lower) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return containsText(lower, "utf-8"_kj) || containsText(lower, "utf8"_kj);
  }
  return true;
}

namespace {

char asciiOf(const PlainCharacter& character) {
  struct Pair {
    uint32_t code;
    char ascii;
  };
  constexpr Pair kNearest[] = {
      {U'…', '.'}, {U'·', '.'}, {U'─', '-'}, {U'│', '|'}, {U'├', '|'}, {U'└', '`'}, {U'←', '<'},
      {U'→', '>'}, {U'↑', '^'}, {U'↓', 'v'}, {U'◰', '|'}, {U'◳', '/'}, {U'◲', '-'}, {U'◱', '\\'},
      {U'▏', ' '}, {U'▎', ' '}, {U'▍', '-'}, {U'▌', '-'}, {U'▋', '='}, {U'▊', '='}, {U'▉', '#'},
      {U'█', '#'}, {U'▁', '_'}, {U'▂', '_'}, {U'▃', '.'}, {U'▄', '-'}, {U'▅', '='}, {U'▆', '+'},
      {U'▇', '*'}, {U'━', '='}, {U'●', '*'}, {U'–', '-'}, {U'—', '-'},
  };
  if (!character.valid) return '?';
  for (auto& pair : kNearest) {
    if (pair.code == character.code) return pair.ascii;
  }
  return '?';
}

}  // namespace

kj::String asciiText(kj::ArrayPtr<const char> text) {
  kj::Vector<char> out(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    if ((text[at] & 0x80) == 0) {
      out.add(text[at++]);
      continue;
    }
    auto character = firstCharacter(text.slice(at, text.size()).asBytes());
    out.add(asciiOf(character));
    at += character.bytes;
  }
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

uint64_t nanoseconds(kj::Date date) {
  return (date - kj::UNIX_EPOCH) / kj::NANOSECONDS;
}

}  // namespace talos::talosctl
