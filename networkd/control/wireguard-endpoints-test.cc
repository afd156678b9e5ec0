#include "networkd/control/wireguard-endpoints.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include <map>
#include <string>

#include "networkd/plan/test-random-network.h"

namespace talos::networkd {
namespace {

struct EndpointBench {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::map<std::string, std::string> hosts;  // "a b": addresses in this order
  unsigned lookups = 0, changes = 0;
  kj::String askedServers;
  Endpoints endpoints{
      timer,
      [this](kj::String host, kj::String servers) { return look(kj::mv(host), kj::mv(servers)); },
      [this] { ++changes; }};

  kj::Promise<kj::Array<kj::String>> look(kj::String host, kj::String servers) {
    ++lookups;
    askedServers = kj::mv(servers);
    auto found = hosts.find(host.cStr());
    if (found == hosts.end()) return KJ_EXCEPTION(FAILED, "Unavailable: no such name");
    kj::Vector<kj::String> result;
    std::string rest = found->second;
    while (!rest.empty()) {
      auto end = rest.find(' ');
      result.add(kj::str(rest.substr(0, end).c_str()));
      rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
    return result.releaseAsArray();
  }
  void pass(kj::Duration time) {
    scope.poll();
    timer.advanceTo(timer.now() + time);
    scope.poll();
  }
  Wanted wanted(std::initializer_list<kj::StringPtr> names) {
    Wanted result;
    auto& link = result.links.add(WantedLink{.name = kj::str("wg0")});
    kj::byte number = 10;
    for (auto name : names) {
      auto& peer = link.wireguard.peers.add();
      peer.publicKey = RandomNetwork::secret(number++).publicKey();
      peer.endpoint = kj::str(name);
    }
    return result;
  }
  kj::String filled(Wanted& w) {
    kj::Vector<kj::String> servers;
    servers.add(kj::str("10.0.0.53"));
    endpoints.fill(w, servers);
    return kj::strArray(
        KJ_MAP(p, w.links[0].wireguard.peers) {
          return p.resolved ? p.resolved->toString() : kj::str("-");
        },
        " ");
  }
};

// Catches: an unknown name that keeps the other peers unreachable.
TEST(Endpoints, OneBadNameDoesNotStopTheOthers) {
  EndpointBench w;
  w.hosts["good.example"] = "192.0.2.1";
  auto first = w.wanted({"good.example:9", "bad.example:9", "nonsense"});
  EXPECT_EQ(w.filled(first), "- - -");
  w.pass(0 * kj::SECONDS);
  EXPECT_EQ(w.changes, 2u);
  EXPECT_EQ(w.askedServers, "10.0.0.53");
  auto again = w.wanted({"good.example:9", "bad.example:9", "nonsense"});
  EXPECT_EQ(w.filled(again), "192.0.2.1:9 - -");
  EXPECT_EQ(again.problems.size(), 2u);
}

// Catches: a peer whose address changed and that stays unreachable; several addresses in another
// order, taken for a change; an address that is forgotten when DNS fails.
TEST(Endpoints, NamesAreLookedUpAgain) {
  EndpointBench w;
  w.hosts["a.example"] = "192.0.2.1 192.0.2.2";
  auto wanted = w.wanted({"a.example:9"});
  w.filled(wanted);
  w.pass(0 * kj::SECONDS);
  EXPECT_EQ(w.filled(wanted), "192.0.2.1:9");
  w.hosts["a.example"] = "192.0.2.2 192.0.2.1";
  w.pass(60 * kj::SECONDS);
  EXPECT_EQ(w.changes, 1u);
  w.hosts.clear();
  w.pass(60 * kj::SECONDS);
  auto later = w.wanted({"a.example:9"});
  EXPECT_EQ(w.filled(later), "192.0.2.1:9");
  EXPECT_EQ(later.problems.size(), 1u);
  w.hosts["a.example"] = "192.0.2.7";
  w.pass(2 * kj::SECONDS);
  auto last = w.wanted({"a.example:9"});
  EXPECT_EQ(w.filled(last), "192.0.2.7:9");
  EXPECT_EQ(last.problems.size(), 0u);
}

// Catches: a server that is not an address and makes every name unknown; the answer of the first
// servers that arrives a minute late.
TEST(Endpoints, AsksTheServersThatAreAddressesAndNewOnesAtOnce) {
  EndpointBench w;
  auto fill = [&](std::initializer_list<kj::StringPtr> servers) {
    kj::Vector<kj::String> list;
    for (auto server : servers) list.add(kj::str(server));
    auto wanted = w.wanted({"a.example:9"});
    w.endpoints.fill(wanted, list);
    return wanted.problems.size();
  };
  fill({"fd00::53", "resolver.example", "fe80::1%eth0", "10.0.0.53"});
  w.pass(0 * kj::SECONDS);
  EXPECT_EQ(w.askedServers, "[fd00::53],10.0.0.53");
  for (unsigned i = 0; i < 200; ++i) w.pass(1 * kj::SECONDS);
  w.hosts["a.example"] = "192.0.2.1";
  EXPECT_EQ(fill({"10.0.0.54"}), 1u);
  w.pass(0 * kj::SECONDS);
  EXPECT_EQ(w.askedServers, "10.0.0.54");
  EXPECT_EQ(fill({"10.0.0.54"}), 0u);
  auto before = w.lookups;
  fill({"10.0.0.55"});
  w.pass(0 * kj::SECONDS);
  EXPECT_EQ(w.lookups, before) << "what is known is not asked for again";
}

// Catches: a config with another endpoint that is ignored; lookups of unwanted names that never
// stop.
TEST(Endpoints, WhatWasReachedIsRememberedAndOtherNamesAreForgotten) {
  EndpointBench w;
  w.hosts["a.example"] = "192.0.2.1";
  w.hosts["b.example"] = "192.0.2.2";
  auto wanted = w.wanted({"a.example:9"});
  w.filled(wanted);
  w.pass(0 * kj::SECONDS);
  w.filled(wanted);
  EXPECT_FALSE(wanted.links[0].wireguard.peers[0].moved);
  w.endpoints.reached(wanted);
  auto other = w.wanted({"b.example:9"});
  w.filled(other);
  w.pass(0 * kj::SECONDS);
  w.filled(other);
  EXPECT_TRUE(other.links[0].wireguard.peers[0].moved);
  w.endpoints.reached(other);
  auto settled = w.wanted({"b.example:9"});
  w.filled(settled);
  EXPECT_FALSE(settled.links[0].wireguard.peers[0].moved);
  unsigned before = w.lookups;
  w.pass(60 * kj::SECONDS);
  EXPECT_EQ(w.lookups, before + 1);  // only that of b
}

}  // namespace
}  // namespace talos::networkd
