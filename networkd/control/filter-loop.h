// The parts that all tables of networkd in the kernel's packet filter share: the socket, and the
// loop that checks a table.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "common/base/signal.h"
#include "common/netlink/netlink-socket.h"
#include "networkd/plan/nft-messages.h"

namespace talos::networkd {

// Tables in the calling thread's network namespace. Opens its socket at the first call, and again
// after a failure.
class FilterSocket {
 public:
  // Both throw with the kernel's error; Unimplemented if the kernel has no nf_tables.
  kj::Vector<FilterRule> rules(kj::StringPtr table);
  void write(kj::Vector<kj::Array<kj::byte>> batch);

 private:
  kj::Maybe<netlink::Socket> open;

  netlink::Socket& socket();
};

// A table is checked this often while it is wanted: for its counts, and because another program may
// have flushed it (`nft flush ruleset`).
constexpr kj::Duration kFilterPause = 60 * kj::SECONDS;

enum class NextLook { kAtChange, kSoon, kAfterPause };
// Calls `look` at each change, which the caller announces by `work`, and at the time that the last
// look has returned; kSoon grows from a second to kFilterPause. Runs until dropped.
kj::Promise<void> lookForEver(kj::Timer& timer, Signal& work,
                              kj::Function<kj::Promise<NextLook>()> look);

}  // namespace talos::networkd
