// Small pieces of text that several commands print.
#pragma once

#include <kj/exception.h>
#include <kj/string.h>
#include <kj/time.h>

#include "common/text/foreign-text.h"

namespace talos::talosctl {

// The first `count` characters of UTF-8, or all of them.
kj::ArrayPtr<const char> firstCharacters(kj::ArrayPtr<const char> text, size_t count);

// The message of an exception, as text for a terminal and without line breaks at its end.
kj::String messageText(const kj::Exception& e);

// "2021-03-09T13:57:11Z" for ns since 1970.
kj::String rfc3339(uint64_t nanoseconds);

// "1234.50": value / unit with this many decimals, rounded half up. Exact: no floating point.
kj::String fixed(uint64_t value, uint64_t unit, unsigned decimals);

// "3m5s" for the time from `then` to `now`, both ns since 1970; a time in the future is 0.
kj::String age(uint64_t then, uint64_t now);

// "30s", "1m30s", "500ms": a deadline in a message.
kj::String durationText(kj::Duration duration);

// ns since 1970.
uint64_t nanoseconds(kj::Date date);

}  // namespace talos::talosctl
