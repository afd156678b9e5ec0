// A time in the past as a person types it, in the forms of kubectl and journalctl: how long ago, or
// when. Times without a zone are local ones (TZ). Pure but for that.
#pragma once

#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/time.h>

namespace talos::talosctl {

// How long ago (nodes have clocks of their own), or when.
using PastTime = kj::OneOf<kj::Duration, kj::Date>;

// "5m", "1h30m", "2d", also with "-" before it; "2026-11-20T12:07:35Z", with a fraction or an
// offset; "2026-11-20 12:07:35", "2026-11-20 12:07", "2026-11-20" (its beginning), "12:07:35" and
// "12:07" (of today), "today", "yesterday", "@1795176455". None for any other text.
kj::Maybe<PastTime> parsePastTime(kj::StringPtr text, kj::Date now);

// The same of a flag. None when it was not given. Fails with a text that is no such time, and with
// one that is still to come.
kj::Maybe<PastTime> pastTimeOf(kj::StringPtr flag, kj::StringPtr text, kj::Date now);

}  // namespace talos::talosctl
