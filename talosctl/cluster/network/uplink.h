// A cluster's way out: its nodes reach the host and, through it, whatever the host reaches.
//
//   node ──> gateway:53 ──────────────> the host's resolver
//   node ──> gateway:PORT (TCP) ──────> the host's 127.0.0.1:PORT, [::1]:PORT or address:PORT
//   node ──> any other address ──NAT──> up0 ──slirp4netns──> sockets of the host
//
// The second line holds for the gateway's IPv6 address too, the others for IPv4 alone.
//
// slirp4netns runs in the host's network namespace and holds the other end of the link up0 of the
// cluster's: packets of the nodes become connections of one unprivileged process. NAT is done by
// rules of the cluster's own namespace. The host's addresses, routes, firewall and sysctls are not
// touched; the host's loopback is reached through the gateway's address alone (host-ports.h).
//
// Everything dies with the supervisor: rules and up0 with the namespace, slirp4netns by
// PR_SET_PDEATHSIG, and by the end of a pipe. slirp4netns has a mount namespace of its own: its
// sandbox unmounts all mounts. When it dies, it is started again; connections through it are lost,
// those to the host's ports are not.
#pragma once

#include <kj/async-io.h>
#include <kj/string.h>

#include "common/net/ip.h"
#include "talosctl/cluster/network/host-network.h"
#include "talosctl/cluster/processes/tool-process.h"

namespace talos::cluster {

// --- pure
// The network of up0, which must not be the nodes' own: slirp4netns is .2, its resolver .3, the
// namespace's end .100. From 198.18.0.0/15, which is for measurements and routed nowhere: whatever
// has an address in it cannot be reached by the nodes.
Prefix uplinkNetwork(const Prefix& nodes);
// The nftables rules, for `nft -f -`. `port`: where connections to the host's ports are redirected.
kj::String uplinkRules(const Prefix& nodes, const Ip& gateway, const Prefix& uplink, uint16_t port);
// Those of the gateway's IPv6 address, which leads to the host's ports alone.
kj::String hostPortRules6(const Ip& gateway, uint16_t port);

// Throws NotFound, with what to do, when slirp4netns or nft is missing. `root`: the tree that
// holds them, or empty.
void checkUplinkTools(kj::StringPtr root);

class Uplink {
 public:
  struct Settings {
    kj::String root;
    kj::Vector<Prefix> gateways;  // with the lengths of the nodes' networks, one of each family
  };
  // The calling thread is in the cluster's namespace, whose bridge has the gateway's addresses.
  Uplink(kj::AsyncIoContext& io, const HostNetwork& host, Settings settings);
  KJ_DISALLOW_COPY_AND_MOVE(Uplink);

  // Resolves when the nodes can use it; rejects when it cannot be set up. Once.
  kj::Promise<void> start();
  // Keeps slirp4netns going until dropped, after start(); without IPv4 there is none.
  kj::Promise<void> run();

 private:
  kj::AsyncIoContext& io;
  kj::Timer& timer;
  const HostNetwork& host;
  Settings settings;
  kj::Maybe<Prefix> network;  // of up0; none without IPv4
  kj::Maybe<kj::Own<ToolProcess>> slirp;
  kj::AutoCloseFd slirpLives;  // closed: slirp4netns ends
  kj::Vector<kj::Promise<void>> ports;

  kj::String openPorts(const Prefix& gateway);
  kj::Promise<void> applyRules(kj::String text);
  kj::Promise<void> startSlirp(const Prefix& uplink);
  kj::Promise<void> keepSlirp(Prefix uplink);
};

}  // namespace talos::cluster
