#include "talosctl/cli/cli-text.h"

#include <string.h>
#include <time.h>

#include "common/base/error.h"
#include "common/base/lines.h"
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

uint64_t nanoseconds(kj::Date date) {
  return (date - kj::UNIX_EPOCH) / kj::NANOSECONDS;
}

}  // namespace talos::talosctl
