// Small pieces of text that several commands print.
#pragma once

#include <kj/exception.h>
#include <kj/string.h>
#include <kj/time.h>

#include "common/text/foreign-text.h"

namespace talos::talosctl {

// Returns the first `count` characters of UTF-8 text, or all of them if there are fewer.
kj::ArrayPtr<const char> firstCharacters(kj::ArrayPtr<const char> text, size_t count);

// Returns the message of an exception as text for a terminal, without line breaks at its end.
kj::String messageText(const kj::Exception& e);

// Quotes an argument for a shell, if necessary.
kj::String shellQuoted(kj::StringPtr text);

// Formats ns since 1970: "2021-03-09T13:57:11Z".
kj::String rfc3339(uint64_t nanoseconds);

// Formats value / unit with this many decimals, rounded half up: "1234.50". Exact: no floating
// point.
kj::String fixed(uint64_t value, uint64_t unit, unsigned decimals);

// Formats the time from `then` to `now`, both ns since 1970: "3m5s". A time in the future gives 0.
kj::String age(uint64_t then, uint64_t now);

// Formats a deadline for a message: "30s", "1m30s", "500ms".
kj::String durationText(kj::Duration duration);

// Returns true if the locale's characters are UTF-8, by the values of these variables: the first
// that is set counts. If none is set, the terminal is assumed to show UTF-8, as most do.
bool isUtf8Locale(kj::StringPtr lcAll, kj::StringPtr lcCtype, kj::StringPtr lang);

// Returns the text with one ASCII character for each other character: the nearest one for bars,
// lines, arrows and ellipses, '?' for the rest. Escape sequences stay.
kj::String asciiText(kj::ArrayPtr<const char> text);

// Returns ns since 1970.
uint64_t nanoseconds(kj::Date date);

}  // namespace talos::talosctl
