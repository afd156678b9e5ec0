// More happens than a monitor can hold.
#include <time.h>

#include "networkd/control/test-network-store.h"
#include "tests/kernel/namespaces.h"

namespace talos::networkd {
namespace {

constexpr unsigned kLinks = 2000, kLeft = 500;

// Links that come, go up and down, and mostly go again; at the end the address of eth0 is taken
// away.
void storm() {
  auto kernel = netlink::openKernel();
  kj::Vector<netlink::Change> changes;
  for (unsigned i = 0; i < kLinks; ++i) {
    changes.add(netlink::AddLink{kj::str("d", i), netlink::Dummy{}});
  }
  kernel->apply(changes);
  changes.clear();
  for (auto& link : kernel->links()) {
    if (link.kind != "dummy" || link.name == "eth0") continue;
    changes.add(netlink::SetLink{.index = link.index, .up = true});
    changes.add(netlink::SetLink{.index = link.index, .up = false});
    if (KJ_ASSERT_NONNULL(kj::str(link.name.slice(1)).tryParseAs<unsigned>()) >= kLeft) {
      changes.add(netlink::DeleteLink{link.index});
    }
  }
  kernel->apply(changes);
  netlink::change(*kernel, netlink::DeleteAddress{{.link = netlink::indexOf(*kernel, "eth0"),
                                                   .prefix = prefix("10.5.0.2/24")}});
}

// Links whose report differs from the kernel.
size_t missed(const Observed& observed, Report& report) {
  size_t result = observed.links.size() == report.links.size() ? 0 : 1;
  for (auto& link : observed.links) {
    KJ_IF_MAYBE (record, report.links.find(link.name)) {
      auto status = (*record)->getRoot<rpc::LinkStatusSpec>().asReader();
      bool up = false;
      for (auto flag : status.getFlags()) up = up || flag == "UP";
      if (status.getIndex() == link.index && up == link.up()) continue;
    }
    ++result;
  }
  return result;
}

// Catches: a state that is missed because its notice was lost, and an overrun that is not counted.
TEST(KernelOverrun, AfterAStormEverythingIsKnown) {
  Namespace ns;
  ns.run([&] {
    auto io = kj::setupAsyncIo();
    auto& timer = io.provider->getTimer();
    auto kernel = netlink::openKernel();
    netlink::addLink(*kernel, "eth0", netlink::Dummy{});
    auto monitor = netlink::openMonitor(io.unixEventPort, 1);  // the least that the kernel gives
    FakeStore store;
    FakeHost host;
    Signal work;
    store.synced = true;
    store.addresses.add(kj::str("10.5.0.2/24"));
    NetworkReconciler reconciler(*kernel, *monitor, store, host, timer, work, [] { return 0.5; });
    auto running = reconciler.run().eagerlyEvaluate(
        [](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
    reconciler.ready().wait(io.waitScope);
    std::atomic<bool> over = false;
    std::thread other([&] {
      ns.run(storm);
      over = true;
    });
    KJ_DEFER(other.join());
    auto deadline = timer.now() + 300 * kj::SECONDS;
    auto settled = [&] {
      bool known = store.last != nullptr &&
                   KJ_ASSERT_NONNULL(store.last).links.size() == kLeft + 2;  // eth0 and lo
      return over && known && store.network().getApplied() == 2 && store.network().getRepairs() > 0;
    };
    while (!settled()) {
      ASSERT_LT(timer.now(), deadline) << "not settled";
      timer
          .timeoutAt(deadline,
                     store.reported.wait().exclusiveJoin(timer.afterDelay(1 * kj::SECONDS)))
          .wait(io.waitScope);
    }
    EXPECT_GT(store.network().getOverruns(), 0u);
    EXPECT_EQ(missed(reconciler.observe(), KJ_ASSERT_NONNULL(store.last)), 0u);
    timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    auto links = reconciler.observe().links.size();
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf(
        "  %u links came, flapped and mostly went: %lu overruns of a buffer of 1 byte, no state "
        "missed; %zu links read again in %.1f ms\n",
        kLinks, static_cast<unsigned long>(store.network().getOverruns()), links,
        (to.tv_sec - from.tv_sec) * 1e3 + (to.tv_nsec - from.tv_nsec) / 1e6);
  });
}

}  // namespace
}  // namespace talos::networkd
