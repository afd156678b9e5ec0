// The server of networkd.sock: its reconciler on a model of the kernel, and machined's side of a
// conversation (rpc Networkd).
#pragma once

#include "common/base/error.h"
#include "common/netlink/model/test-kernel.h"
#include "networkd/control/networkd-server.h"
#include "networkd/control/test-network-store.h"
#include "tests/testbeds/conversation.h"

namespace talos::testbeds {

// A capture of nothing: the testbed does not parse captured packets of a link.
class NoCaptures final : public networkd::Captures {
 public:
  kj::Promise<Counts> capture(rpc::Network::CaptureParams::Reader) override {
    fail(ErrorKind::kNotFound, "there is no such link");
  }
};

class NetworkdTestbed {
 public:
  explicit NetworkdTestbed(kj::Timer& timer)
      : reconciler(kernel, *monitor, store, host, timer, work, [] { return 0.5; }) {
    store.synced = true;
    store.addresses.add(kj::str("10.5.0.2/24"));
    store.defaultRoute = true;
    running = reconciler.run().eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(FATAL, e); });
  }
  KJ_DISALLOW_COPY_AND_MOVE(NetworkdTestbed);

  capnp::Capability::Client open() { return networkd::makeServer(reconciler, captures); }

  static kj::Promise<void> use(capnp::Capability::Client bootstrap) {
    auto networkd = bootstrap.castAs<rpc::Networkd>();
    co_await networkd.readyRequest().send().ignoreResult();
    auto network = networkd.networkRequest().send().getNetwork();
    auto interfaces = co_await network.interfacesRequest().send();
    KJ_ASSERT(interfaces.getInterfaces().size() == 2);
  }

  static kj::Array<kj::byte> conversation() {
    Conversation c;
    c.call<rpc::Networkd, rpc::Networkd::NetworkParams>(1, 0, 0);
    c.call<rpc::Networkd, rpc::Networkd::ReadyParams>(2, 0, 1);
    for (unsigned i = 0; i < 4; ++i) {
      c.call<rpc::Network, rpc::Network::InterfacesParams>(3 + 2 * i, 1, 0);
      c.call<rpc::Network, rpc::Network::RoutesParams>(4 + 2 * i, 1, 1);
    }
    return c.finish();
  }
  static constexpr unsigned kResults = 11;  // to the calls of the conversation

 private:
  netlink::TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0");
  kj::Own<netlink::Monitor> monitor = kernel.monitor();
  networkd::FakeStore store;
  networkd::FakeHost host;
  Signal work;
  networkd::NetworkReconciler reconciler;
  NoCaptures captures;
  kj::Promise<void> running = nullptr;
};

}  // namespace talos::testbeds
