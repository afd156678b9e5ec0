// Makes one query to one NTP server.
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
  kj::Function<uint64_t()> nonce;  // unguessable
  ForeignBytes& foreign;           // parses the replies
};

// Queries a server. Never rejects: silence, a missing route and invalid replies yield Rejected with
// the reason. Skips a few datagrams that do not answer this query; more of them are a flood, and
// end the query.
kj::Promise<ntp::Verdict> ask(QueryDependencies& deps, kj::String address, kj::Duration timeout);

}  // namespace talos::machined
