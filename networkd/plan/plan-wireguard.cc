// Builds the change to send to a WireGuard device. Unchanged peers are not named, so their sessions
// continue.
#include <algorithm>
#include <set>

#include "networkd/plan/plan-links.h"

namespace talos::networkd {

using netlink::SetPeer;
using netlink::SetWireguard;
using netlink::WireguardDevice;
using netlink::WireguardPeer;

namespace {

// Seconds without a handshake after which a session is dead (REJECT_AFTER_TIME of the protocol):
// then the peer gets its configured endpoint again.
constexpr int64_t kDeadAfter = 180;

std::vector<Prefix> sorted(std::vector<Prefix> networks) {
  for (auto& network : networks) network = network.masked();
  std::sort(networks.begin(), networks.end());
  networks.erase(std::unique(networks.begin(), networks.end()), networks.end());
  return networks;
}

const WireguardPeer* find(const WireguardDevice& device, const netlink::WireguardKey& key) {
  for (auto& peer : device.peers) {
    if (peer.publicKey == key) return &peer;
  }
  return nullptr;
}

// A peer may send from another address than the configured one, and the kernel follows it. This
// address stays while it works.
bool needsEndpoint(const WantedPeer& want, const WireguardPeer* there, int64_t now) {
  if (!want.resolved) return false;
  if (there == nullptr || !there->endpoint) return true;
  if (*there->endpoint == *want.resolved) return false;
  return want.moved || now - there->lastHandshake > kDeadAfter;
}

class Difference {
 public:
  Difference(const WantedWireguard& wanted, const WireguardDevice& there, bool portOfConfig,
             int64_t now, kj::FunctionParam<void(kj::StringPtr)>& problem)
      : wanted(wanted), there(there), portOfConfig(portOfConfig), now(now), problem(problem) {}

  void fill(SetWireguard& set) {
    netlink::WireguardKey own{};
    KJ_IF_MAYBE (secret, wanted.privateKey) {
      own = secret->publicKey();
      if (own != there.publicKey) set.privateKey = secret->clone();
    } else {
      problem("waiting for its private key");
    }
    bool otherPort = wanted.listenPort == 0 ? portOfConfig : wanted.listenPort != there.listenPort;
    if (otherPort) set.listenPort = wanted.listenPort;
    if (wanted.firewallMark != there.firewallMark) set.firewallMark = wanted.firewallMark;
    for (auto& peer : there.peers) {
      if (!wants(peer.publicKey))
        set.peers.push_back({.publicKey = peer.publicKey, .remove = true});
    }
    for (auto& peer : wanted.peers) {
      if (peer.publicKey == own) {
        problem(kj::str("the peer ", netlink::toText(peer.publicKey), " is this node itself"));
      } else {
        addPeer(peer, set);
      }
    }
  }

 private:
  const WantedWireguard& wanted;
  const WireguardDevice& there;
  bool portOfConfig;  // A config, this one or an earlier one, gave the device its port.
  int64_t now;
  kj::FunctionParam<void(kj::StringPtr)>& problem;
  std::set<Prefix> claimed;

  bool wants(const netlink::WireguardKey& key) const {
    for (auto& peer : wanted.peers) {
      if (peer.publicKey == key) return true;
    }
    return false;
  }

  // A network belongs to one peer: the first that names it. The kernel would give it to the last,
  // and each pass would take it from the other.
  std::vector<Prefix> claim(const WantedPeer& peer) {
    std::vector<Prefix> mine;
    for (auto& network : sorted(peer.allowed)) {
      if (claimed.insert(network).second) {
        mine.push_back(network);
      } else {
        problem(kj::str(network, " is an allowed IP of two peers; ",
                        netlink::toText(peer.publicKey), " is ignored for it"));
      }
    }
    return mine;
  }

  void addPeer(const WantedPeer& want, SetWireguard& set) {
    auto peer = find(there, want.publicKey);
    SetPeer change{.publicKey = want.publicKey};
    auto networks = claim(want);
    if (needsEndpoint(want, peer, now)) change.endpoint = want.resolved;
    if (want.keepalive != (peer == nullptr ? 0 : peer->keepalive))
      change.keepalive = want.keepalive;
    if (networks != sorted(peer == nullptr ? std::vector<Prefix>() : peer->allowed)) {
      change.replaceAllowed = true;
      change.allowed = std::move(networks);
    }
    if (peer == nullptr || change.endpoint || change.keepalive || change.replaceAllowed) {
      set.peers.push_back(std::move(change));
    }
  }
};

}  // namespace

kj::Maybe<SetWireguard> wireguardDifference(unsigned link, const WantedWireguard& wanted,
                                            const WireguardDevice& there,
                                            const std::vector<TunnelPort>& ports, int64_t now,
                                            kj::FunctionParam<void(kj::StringPtr)> problem) {
  SetWireguard set{.index = link};
  bool portOfConfig =
      std::find(ports.begin(), ports.end(), TunnelPort{link, there.listenPort}) != ports.end();
  Difference(wanted, there, portOfConfig, now, problem).fill(set);
  if (set.privateKey == nullptr && !set.listenPort && !set.firewallMark && set.peers.empty()) {
    return nullptr;
  }
  return kj::mv(set);
}

kj::Maybe<int64_t> untilSilence(const Wanted& wanted, const Observed& observed) {
  kj::Maybe<int64_t> first;
  for (auto& want : wanted.links) {
    for (auto& tunnel : observed.tunnels) {
      if (nameOf(observed, tunnel.link) != want.name) continue;
      for (auto& peer : want.wireguard.peers) {
        auto there = find(tunnel.device, peer.publicKey);
        if (there == nullptr || !peer.resolved || there->endpoint == peer.resolved) continue;
        // The result is not longer even if the clock was set back.
        auto left = kj::min(there->lastHandshake - observed.now, 0) + kDeadAfter + 1;
        if (left > 0) first = kj::min(left, first.orDefault(left));
      }
    }
  }
  return first;
}

void applyTo(netlink::WireguardDevice& device, const netlink::SetWireguard& set) {
  if (set.listenPort) device.listenPort = *set.listenPort;
  if (set.firewallMark) device.firewallMark = *set.firewallMark;
  KJ_IF_MAYBE (secret, set.privateKey) device.publicKey = secret->publicKey();
  auto& peers = device.peers;
  std::erase_if(peers, [&](auto& p) { return p.publicKey == device.publicKey; });
  for (auto& change : set.peers) {
    auto same = [&](auto& p) { return p.publicKey == change.publicKey; };
    if (change.remove) {
      std::erase_if(peers, same);
      continue;
    }
    auto peer = std::find_if(peers.begin(), peers.end(), same);
    if (peer == peers.end()) {
      peers.push_back({.publicKey = change.publicKey});
      peer = peers.end() - 1;
    }
    if (change.endpoint) peer->endpoint = change.endpoint;
    if (change.keepalive) peer->keepalive = *change.keepalive;
    if (change.replaceAllowed) peer->allowed.clear();
    for (auto& allowed : change.allowed) {
      // A network belongs to the last peer that claims it.
      for (auto& other : peers) std::erase(other.allowed, allowed.masked());
      peer->allowed.push_back(allowed.masked());
    }
  }
}

}  // namespace talos::networkd
