#include "networkd/control/firewall.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/wire/store-adapter.h"
#include "networkd/control/network-pace.h"
#include "networkd/plan/status-records.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

namespace {

class KernelFirewall final : public FirewallFilter {
 public:
  kj::Vector<FilterRule> rules() override { return socket.rules(kFirewallTable); }
  void replace(kj::Maybe<const FirewallTable&> wanted) override {
    socket.write(encodeFirewall(wanted));
  }

 private:
  FilterSocket socket;
};

kj::StringPtr actionOf(const FirewallTable& table) {
  return table.block ? "block"_kj : "accept"_kj;
}

}  // namespace

kj::Own<FirewallFilter> openFirewallFilter() {
  return kj::heap<KernelFirewall>();
}

Firewall::Firewall(FirewallFilter& filter, kj::Timer& timer, Signal& work, Read read,
                   Publish publish)
    : filter(filter), timer(timer), work(work), read(kj::mv(read)), publish(kj::mv(publish)) {}

kj::Promise<void> Firewall::run() {
  return lookForEver(timer, work, [this] { return look(); });
}

void Firewall::replace(kj::Maybe<const FirewallTable&> wanted) {
  filter.replace(wanted);
  KJ_IF_MAYBE (table, wanted) {
    log::info("the firewall has new rules",
              {{"default", actionOf(*table)}, {"count", table->count}});
  } else {
    log::info("the firewall is off: every packet is accepted");
  }
}

Firewall::Outcome Firewall::make(kj::Maybe<const FirewallTable&> wanted) {
  Outcome outcome;
  kj::Vector<FilterRule> listed;
  KJ_IF_MAYBE (table, wanted) listed = table->listed();
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 auto found = filter.rules();
                 if (!sameRules(found, listed)) {
                   replace(wanted);
                   found = filter.rules();
                   if (!sameRules(found, listed)) {
                     fail(ErrorKind::kInternal, "the kernel lists other rules than it was given");
                   }
                 }
                 KJ_IF_MAYBE (table, wanted) outcome.dropped = table->dropped(found);
               })) {
    // Without nf_tables there are no rules to remove.
    if (wanted != nullptr || kindOf(*e) != ErrorKind::kUnimplemented) {
      outcome.problem = messageOf(*e);
    }
  }
  outcome.made = outcome.problem.size() == 0;
  if (!outcome.made && outcome.problem != logged) {
    log::error("cannot set the rules of the firewall", {{"error", outcome.problem}});
  }
  logged = kj::str(outcome.problem);
  return outcome;
}

// Returns false if the report has to be repeated.
kj::Promise<bool> Firewall::report(kj::Maybe<const FirewallTable&> wanted, const Outcome& outcome) {
  Records records;
  KJ_IF_MAYBE (table, wanted) {
    insert<rpc::FirewallStatusSpec>(records, kj::str(kFirewallId),
                                    [&](rpc::FirewallStatusSpec::Builder spec) {
                                      if (outcome.made) {
                                        spec.setIngress(actionOf(*table));
                                        spec.setRules(table->count);
                                      }
                                      spec.setDropped(outcome.dropped);
                                      spec.setProblem(outcome.problem);
                                    });
  }
  auto failure = co_await errorOf(
      [&] { return timer.timeoutAfter(kPublishDeadline, publish(kj::mv(records))); });
  KJ_IF_MAYBE (error, failure) {
    log::warn("cannot report the rules of the firewall; retrying", {{"error", *error}});
    co_return false;
  }
  co_return true;
}

kj::Promise<NextLook> Firewall::look() {
  auto found = read();
  if (found == nullptr) co_return NextLook::kAtChange;
  auto& state = KJ_ASSERT_NONNULL(found);
  auto wanted = [&]() -> kj::Maybe<const FirewallTable&> {
    KJ_IF_MAYBE (table, state.wanted) return *table;
    return nullptr;
  }();
  // A status that exists before the rules do makes a later networkd remove them.
  if (!state.reported) {
    if (wanted == nullptr) co_return NextLook::kAtChange;
    if (!co_await report(wanted, {})) co_return NextLook::kSoon;
  }
  auto outcome = make(wanted);
  // The status stays if its rules could not be removed.
  if (wanted == nullptr && !outcome.made) co_return NextLook::kSoon;
  if (!co_await report(wanted, outcome) || !outcome.made) co_return NextLook::kSoon;
  co_return wanted == nullptr ? NextLook::kAtChange : NextLook::kAfterPause;
}

}  // namespace talos::networkd
