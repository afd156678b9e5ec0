// Parses a time in the past as a person types it, in the forms of kubectl and journalctl: an age,
// or a point in time. Times without a zone are local times (TZ). Pure except for TZ.
#pragma once

#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/time.h>

namespace talos::talosctl {

// An age (nodes have their own clocks), or a point in time.
using PastTime = kj::OneOf<kj::Duration, kj::Date>;

// Parses "5m", "1h30m", "2d", also with a leading "-"; "2026-11-20T12:07:35Z", with a fraction or
// an offset; "2026-11-20 12:07:35", "2026-11-20 12:07", "2026-11-20" (its beginning), "12:07:35"
// and "12:07" (of today), "today", "yesterday", "@1795176455". Returns nullptr for any other text.
kj::Maybe<PastTime> parsePastTime(kj::StringPtr text, kj::Date now);

// Parses the value of a flag; nullptr if the flag was not given. Fails for any other text, and for
// a time in the future.
kj::Maybe<PastTime> pastTimeOf(kj::StringPtr flag, kj::StringPtr text, kj::Date now);

}  // namespace talos::talosctl
