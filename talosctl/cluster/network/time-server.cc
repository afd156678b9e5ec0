#include "talosctl/cluster/network/time-server.h"

#include "common/net/ntp.h"

namespace talos::cluster {
namespace {

// The host's clock is not known to be accurate, hence a stratum above 1, where the reference id is
// an address: 127.127.1.1 usually means the local clock.
constexpr ntp::ServerClock kOwnClock = {
    .stratum = 10, .referenceId = 0x7f7f0101, .rootDispersion = 10 * kj::MILLISECONDS};

// Limit of queries handled at a time, so that a flooding guest cannot occupy the loop.
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
