// Points in time as text (RFC 3339): in UTC for logs and messages, and as other programs write
// them. Pure.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

namespace talos {

// Returns "2026-11-20T12:07:35Z"; for any year that a certificate can name.
kj::String dateText(kj::Date date);
// Returns "2026-11-20T12:07:35.042Z".
kj::String dateTextMs(kj::Date date);

// Returns nullptr for a text that dateText() does not write.
kj::Maybe<kj::Date> parseDate(kj::StringPtr text);

// Parses a text of another program: "2026-11-20T12:07:35Z", with or without a fraction, with Z or
// an offset ("+02:00"). Returns nullptr for any other text, and for a year that kj::Date does not
// have.
kj::Maybe<kj::Date> parseTimestamp(kj::ArrayPtr<const char> text);

}  // namespace talos
