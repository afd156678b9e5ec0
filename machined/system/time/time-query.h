// One question to one NTP server.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "common/net/ntp.h"
#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/system/time/time-interfaces.h"

namespace talos::machined {

struct QueryDependencies {
  kj::Timer& timer;
  SystemClock& clock;
  TimeNetwork& network;
  kj::Function<uint64_t()> nonce;  // that nobody can guess
  ForeignBytes& foreign;           // who reads what comes
};

// Never rejects: silence, no way there and nonsense are Rejected, saying why. Datagrams that are
// no answer to this query are passed over, a few of them: more is a flood, and ends it.
kj::Promise<ntp::Verdict> ask(QueryDependencies& deps, kj::String address, kj::Duration timeout);

}  // namespace talos::machined
