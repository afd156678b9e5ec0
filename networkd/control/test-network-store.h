// The store and the machine as the tests of the reconciler use them.
#pragma once

#include <kj/debug.h>

#include "networkd/control/network-reconciler.h"

namespace talos::networkd {

class FakeHost final : public Host {
 public:
  kj::String name = kj::str("localhost");
  kj::String file;
  bool diskFull = false;
  Signal nameChanged;

  kj::String hostname() override { return kj::str(name); }
  kj::Promise<void> hostnameChanged() override { return nameChanged.wait(); }
  unsigned looks = 0;  // reads of the whole network, each of which begins with this call
  bool ipv6() override {
    ++looks;
    return true;
  }
  kj::Function<void(kj::StringPtr)> acceptsRouters = [](kj::StringPtr) {};
  void acceptRouterAdvertisements(kj::StringPtr link) override { acceptsRouters(link); }
  kj::String firstMtus, tunnelPorts;
  Hardware hardware(const netlink::Link& link) override {
    if (link.kind.size() > 0 || link.loopback()) return {};
    return {kj::str("model_net"), kj::str("0000:00:0", link.index, ".0"), kj::str("1af4:1000")};
  }
  kj::HashMap<unsigned, kj::String> predictable;  // by index
  kj::Vector<kj::String> predictableNames(const netlink::Link& link) override {
    kj::Vector<kj::String> names;
    KJ_IF_MAYBE (name, predictable.find(link.index)) names.add(kj::str(*name));
    return names;
  }
  kj::String readFirstMtus() override { return kj::str(firstMtus); }
  void writeFirstMtus(kj::StringPtr content) override { firstMtus = kj::str(content); }
  kj::String readTunnelPorts() override { return kj::str(tunnelPorts); }
  void writeTunnelPorts(kj::StringPtr content) override { tunnelPorts = kj::str(content); }
  void writeResolverFile(kj::StringPtr content) override {
    KJ_REQUIRE(!diskFull, "disk full");
    file = kj::str(content);
  }
  kj::String podFile;
  void writePodResolverFile(kj::StringPtr content) override { podFile = kj::str(content); }
};

class FakeStore final : public NetworkStore {
 public:
  bool synced = false, broken = false;
  kj::Vector<kj::String> addresses;  // addresses of eth0
  bool defaultRoute = false;
  unsigned mtu = 0;
  kj::StringPtr layer = "configuration";
  kj::String hostname;
  NodeAddresses stored;
  Repairs repairs;
  kj::Function<void(Wanted&)> more = [](Wanted&) {};
  unsigned published = 0;
  kj::Maybe<Report> last;
  Signal reported;  // A report was published.

  kj::Maybe<Intent> intent() override {
    if (!synced) return nullptr;
    Intent intent;
    intent.wanted.links.add(
        WantedLink{.name = kj::str("eth0"), .mtu = mtu, .version = 1, .layer = kj::str(layer)});
    for (auto& address : addresses) {
      intent.wanted.addresses.add(WantedAddress{.link = kj::str("eth0"),
                                                .prefix = KJ_ASSERT_NONNULL(Prefix::parse(address)),
                                                .version = 1});
    }
    if (defaultRoute) {
      intent.wanted.routes.add(WantedRoute{.link = kj::str("eth0"),
                                           .destination = Prefix::all(AF_INET),
                                           .gateway = KJ_ASSERT_NONNULL(Ip::parse("10.5.0.1")),
                                           .metric = 10,
                                           .version = 1});
    }
    more(intent.wanted);
    intent.hostname = kj::str(hostname);
    intent.previous.chosen.addAll(stored.chosen);
    intent.previous.known.addAll(stored.known);
    intent.repairs = repairs.copy();
    return kj::mv(intent);
  }
  kj::Promise<void> publish(Report report) override {
    KJ_REQUIRE(!broken, "store is away");
    ++published;
    last = kj::mv(report);
    reported.raise();
    return kj::READY_NOW;
  }
  rpc::NetworkStatusSpec::Reader network() {
    auto& report = KJ_ASSERT_NONNULL(last);
    return KJ_ASSERT_NONNULL(report.network.find("status"_kj))->getRoot<rpc::NetworkStatusSpec>();
  }
};

}  // namespace talos::networkd
