// Points in time as other programs write them (RFC 3339). Pure.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

namespace talos {

// Parses "2026-11-20T12:07:35Z", with or without a fraction, with Z or an offset ("+02:00").
// Returns nullptr for any other text, and for a year that kj::Date does not have.
kj::Maybe<kj::Date> parseTimestamp(kj::ArrayPtr<const char> text);

}  // namespace talos
