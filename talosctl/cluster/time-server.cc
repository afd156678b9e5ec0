#include "talosctl/cluster/time-server.h"

#include "common/net/ntp.h"

namespace talos::cluster {
namespace {

// A host without a clock that is known to be good; what it says of itself is the usual word for
// "my own clock": 127.127.1.1 (a stratum above 1 has the address of its server there).
constexpr ntp::ServerClock kOwnClock = {
    .stratum = 10, .referenceId = 0x7f7f0101, .rootDispersion = 10 * kj::MILLISECONDS};

// A guest that floods gets the loop for itself for no longer than so many queries.
constexpr unsigned kBurst = 64;
constexpr auto kBreath = 1 * kj::MILLISECONDS;

}  // namespace

kj::Promise<void> serveTime(kj::Timer& timer, kj::Own<UdpSocket> socket) {
  auto& clock = kj::systemPreciseCalendarClock();
  for (unsigned count = 1;; ++count) {
    auto query = co_await socket->receive();
    auto reply = ntp::answer(query.bytes, query.received, clock.now(), kOwnClock);
    KJ_IF_MAYBE (bytes, reply) socket->answer(query, *bytes);
    if (count % kBurst == 0) co_await timer.afterDelay(kBreath);
  }
}

}  // namespace talos::cluster
