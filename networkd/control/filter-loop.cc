#include "networkd/control/filter-loop.h"

#include <linux/netlink.h>
#include <string.h>

#include "common/base/backoff.h"
#include "common/base/error.h"

namespace talos::networkd {
namespace {

constexpr auto kFilterDeadline = 5 * kj::SECONDS;  // of the kernel's answer
constexpr kj::Duration kFirstFilterPause = 1 * kj::SECONDS;

}  // namespace

netlink::Socket& FilterSocket::socket() {
  KJ_IF_MAYBE (there, open) return *there;
  return open.emplace(NETLINK_NETFILTER, kFilterDeadline);
}

kj::Vector<FilterRule> FilterSocket::rules(kj::StringPtr table) {
  kj::Vector<FilterRule> found;
  // A kernel without netfilter refuses such sockets; a kernel without nf_tables refuses the
  // request.
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 for (auto& message :
                      socket().dump(encodeRuleDump(table), "list rules of nf_tables")) {
                   KJ_IF_MAYBE (part, message.body.tryGet<netlink::Generic>()) {
                     KJ_IF_MAYBE (rule, readRule(*part, table)) found.add(kj::mv(*rule));
                   }
                 }
               })) {
    if (kindOf(*e) == ErrorKind::kUnavailable) kj::throwFatalException(kj::mv(*e));
    fail(ErrorKind::kUnimplemented, kj::str("the kernel has no nf_tables: ", messageOf(*e)));
  }
  return found;
}

void FilterSocket::write(kj::Vector<kj::Array<kj::byte>> batch) {
  for (auto& ack : socket().transactAtOnce(batch)) {
    if (ack.code == 0) continue;
    fail(ErrorKind::kFailedPrecondition,
         kj::str("the kernel refused rules of nf_tables: ", ack.message,
                 ack.message.size() > 0 ? ": " : "", strerror(ack.code)));
  }
}

kj::Promise<void> lookForEver(kj::Timer& timer, Signal& work,
                              kj::Function<kj::Promise<NextLook>()> look) {
  Backoff backoff({kFirstFilterPause, kFilterPause});
  for (;;) {
    auto change = work.wait();  // before the check, so that no change is missed
    switch (co_await look()) {
      case NextLook::kAtChange:
        backoff.reset();
        co_await change;
        break;
      case NextLook::kAfterPause:
        backoff.reset();
        co_await change.exclusiveJoin(timer.afterDelay(kFilterPause));
        break;
      case NextLook::kSoon:
        co_await change.exclusiveJoin(timer.afterDelay(backoff.next()));
        break;
    }
  }
}

}  // namespace talos::networkd
