// The beginning of the lines that a client wants (LogSince), as the time that logs have. Pure.
#pragma once

#include <kj/time.h>

#include "rpc/stream.capnp.h"

namespace talos::machined {

// Returns the time by the clock that is never set (LogRing::since()), on which `now` is the time of
// day `wall`. A time from before the clock's origin is the origin. nullptr: all lines.
kj::Maybe<kj::TimePoint> momentOf(rpc::LogSince::Reader since, kj::TimePoint now, kj::Date wall);
// The same by the present clocks.
kj::Maybe<kj::TimePoint> momentOf(rpc::LogSince::Reader since);

// Returns the same as a time of day.
kj::Maybe<kj::Date> dateOf(rpc::LogSince::Reader since, kj::Date wall);

}  // namespace talos::machined
