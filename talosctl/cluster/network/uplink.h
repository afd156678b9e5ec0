// A cluster's way out: its nodes reach the host and, through it, all networks that the host
// reaches.
//
//   node ──> gateway:53 ──────────────> the host's resolver
//   node ──> gateway:PORT (TCP) ──────> the host's 127.0.0.1:PORT, [::1]:PORT or address:PORT
//   node ──> any other address ──NAT──> up0 ──slirp4netns──> sockets of the host
//
// The second line holds for the gateway's IPv6 address too, the others only for IPv4.
//
// slirp4netns runs in the host's network namespace and holds the other end of the cluster's link
// up0: it turns packets of the nodes into connections of one unprivileged process. Rules of the
// cluster's own namespace do the NAT. The host's addresses, routes, firewall and sysctls are not
// changed; the host's loopback is reachable only through the gateway's address (port-forwarder.h).
//
// Everything ends with the supervisor: the rules and up0 with the namespace, slirp4netns by
// PR_SET_PDEATHSIG and by the end of a pipe. slirp4netns has its own mount namespace, because its
// sandbox unmounts all mounts. When it dies, it is started again; connections through it are lost,
// connections to the host's ports are not.
#pragma once

#include <kj/async-io.h>
#include <kj/string.h>

#include "common/net/ip.h"
#include "talosctl/cluster/network/host-network.h"
#include "talosctl/cluster/processes/child-process.h"

namespace talos::cluster {

// --- pure
// Returns the network of up0, which must not be the nodes' own: slirp4netns has .2, its resolver
// .3, the namespace's end .100. It is in 198.18.0.0/15, which is for measurements and routed
// nowhere: the nodes cannot reach hosts with an address in this network.
Prefix uplinkNetwork(const Prefix& nodes);
// Returns the nftables rules, for `nft -f -`. `port`: the port to which connections to the host's
// ports are redirected.
kj::String uplinkRules(const Prefix& nodes, const Ip& gateway, const Prefix& uplink, uint16_t port);
// Returns the rules for the gateway's IPv6 address, which leads only to the host's ports.
kj::String hostPortRules6(const Ip& gateway, uint16_t port);

// Throws NotFound, with the remedy, if slirp4netns or nft is missing. `root`: the tree that holds
// them, or empty.
void checkUplinkTools(kj::StringPtr root);

class Uplink {
 public:
  struct Settings {
    kj::String root;
    // Gateways with the prefix lengths of the nodes' networks, one of each family.
    kj::Vector<Prefix> gateways;
  };
  // The calling thread must be in the cluster's namespace, whose bridge has the gateway's
  // addresses.
  Uplink(kj::AsyncIoContext& io, const HostNetwork& host, Settings settings);
  KJ_DISALLOW_COPY_AND_MOVE(Uplink);

  // Resolves when the nodes can use the uplink; rejects if it cannot be set up. To be called once.
  kj::Promise<void> start();
  // Restarts slirp4netns when it ends, until dropped; after start(). Without IPv4 there is no
  // slirp4netns.
  kj::Promise<void> run();

 private:
  kj::AsyncIoContext& io;
  kj::Timer& timer;
  const HostNetwork& host;
  Settings settings;
  kj::Maybe<Prefix> network;  // network of up0; nullptr without IPv4
  kj::Maybe<kj::Own<ToolProcess>> slirp;
  kj::AutoCloseFd slirpLives;  // closing it ends slirp4netns
  kj::Vector<kj::Promise<void>> ports;

  kj::String openPorts(const Prefix& gateway);
  kj::Promise<void> applyRules(kj::String text);
  kj::Promise<void> startSlirp(const Prefix& uplink);
  kj::Promise<void> keepSlirp(Prefix uplink);
};

}  // namespace talos::cluster
