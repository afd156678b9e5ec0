// The beginning of what somebody wants to read of a log (LogSince), as the time that logs have.
// Pure.
#pragma once

#include <kj/time.h>

#include "rpc/stream.capnp.h"

namespace talos::machined {

// By the clock that nobody sets (LogRing::since()): `now` of it is the time of day `wall`. A time
// from before its origin is the origin. None: all.
kj::Maybe<kj::TimePoint> momentOf(rpc::LogSince::Reader since, kj::TimePoint now, kj::Date wall);
// By the clocks of this moment.
kj::Maybe<kj::TimePoint> momentOf(rpc::LogSince::Reader since);

// As a time of day.
kj::Maybe<kj::Date> dateOf(rpc::LogSince::Reader since, kj::Date wall);

}  // namespace talos::machined
