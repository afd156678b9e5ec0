#include "machined/system/time/time-query.h"

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr unsigned kMostForeign = 16;
// The wall clock cannot get so far ahead of the timer unless it was set. (The timer may be ahead:
// it has the time of the loop's last turn.)
constexpr auto kClockWasSet = 500 * kj::MILLISECONDS;

kj::Promise<ntp::Verdict> converse(QueryDependencies& deps, kj::String address) {
  auto conversation = deps.network.open(address);
  auto nonce = deps.nonce();
  auto query = ntp::makeQuery(nonce);
  auto begun = deps.timer.now();
  auto sent = deps.clock.now();
  conversation->send(query);
  for (unsigned count = 0; count < kMostForeign; ++count) {
    auto reply = co_await conversation->receive();
    auto elapsed = reply.received - sent;
    if (elapsed < 0 * kj::SECONDS || elapsed > deps.timer.now() - begun + kClockWasSet) {
      co_return ntp::Rejected{kj::str("another program set the clock during the query")};
    }
    auto verdict = co_await deps.foreign.ntp({reply.bytes, nonce, sent, elapsed});
    if (!verdict.is<ntp::Rejected>() || !verdict.get<ntp::Rejected>().forged) {
      co_return kj::mv(verdict);
    }
  }
  co_return ntp::Rejected{kj::str("too many unsolicited packets")};
}

}  // namespace

kj::Promise<ntp::Verdict> ask(QueryDependencies& deps, kj::String address, kj::Duration timeout) {
  auto late = deps.timer.afterDelay(timeout).then([timeout]() -> ntp::Verdict {
    return ntp::Rejected{kj::str("no answer within ", timeout / kj::MILLISECONDS, " ms")};
  });
  return converse(deps, kj::mv(address))
      .catch_([](kj::Exception&& e) -> ntp::Verdict { return ntp::Rejected{messageOf(e)}; })
      .exclusiveJoin(kj::mv(late));
}

}  // namespace talos::machined
