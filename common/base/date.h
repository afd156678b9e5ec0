// Points in time as text for logs and messages, in UTC (RFC 3339). Pure.
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

}  // namespace talos
