#include "talosctl/cluster/nodes/node-patches.h"

#include <arpa/inet.h>
#include <kj/encoding.h>
#include <string.h>

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "common/netlink/netlink-wireguard.h"
#include "common/text/foreign-text.h"
#include "common/tls/pki.h"
#include "talosctl/cluster/network/cluster-addresses.h"
#include "talosctl/cluster/nodes/cluster-plan.h"

namespace talos::cluster {
namespace {

constexpr uint16_t kWireguardPort = 51111;  // port of control-plane nodes
constexpr unsigned kWireguardMtu = 1500;

struct Member {
  kj::String address, privateKey, publicKey, endpoint;  // endpoint: only for control-plane nodes
  ~Member() { zeroize(privateKey); }
  Member() = default;
  Member(Member&&) = default;
};

// Creates a private key: RFC 7748, section 5, fixes some of its bits.
kj::String makePrivateKey() {
  auto bytes = pki::randomBytes(32);
  bytes[0] &= 248;
  bytes[31] = (bytes[31] & 127) | 64;
  auto text = kj::encodeBase64(bytes);
  zeroize(bytes.asChars());
  return text;
}

Ip nth(const Prefix& network, uint32_t number) {
  uint32_t raw;
  memcpy(&raw, network.address.bytes().begin(), sizeof raw);
  raw = htonl(ntohl(raw) + number);
  return KJ_ASSERT_NONNULL(Ip::fromBytes(kj::arrayPtr(&raw, 1).asBytes()));
}

Prefix wireguardNetwork(rpc::LocalCluster::Reader cluster, kj::StringPtr text) {
  auto refuse = [&](kj::StringPtr error) {
    fail(ErrorKind::kInvalidArgument, kj::str("--wireguard-cidr: \"", text, "\" ", error));
  };
  auto network = Prefix::parse(text).orDefault(Prefix{});
  if (network.length == 0 || network.address.family() != AF_INET) {
    refuse("is not a valid IPv4 network; use for example 10.1.0.0/24");
  }
  if (network != network.masked()) {
    refuse(kj::str("has host bits set; did you mean ", network.masked(), "?"));
  }
  auto nodes = networksOf(cluster)[0];
  if (nodes.overlaps(network)) {
    refuse(kj::str("overlaps the network of the nodes, ", nodes));
  }
  // Leaves out the network's address, the usual gateway and the broadcast address.
  uint64_t room = network.length >= 31 ? 0 : (uint64_t(1) << (32 - network.length)) - 3;
  if (cluster.getNodes().size() > room) {
    refuse(kj::str("has room for ", room, " nodes, not ", cluster.getNodes().size()));
  }
  return network;
}

kj::String peerText(const Member& peer, kj::StringPtr allowed) {
  return kj::str("            - publicKey: ", peer.publicKey, "\n",
                 peer.endpoint.size() == 0
                     ? kj::str()
                     : kj::str("              endpoint: ", peer.endpoint, "\n"),
                 "              persistentKeepaliveInterval: 5s\n", "              allowedIPs: [",
                 allowed, "]\n");
}

kj::String memberText(kj::ArrayPtr<const Member> members, size_t own, const Prefix& network) {
  auto& me = members[own];
  bool controlPlane = me.endpoint.size() > 0;
  kj::Vector<kj::String> peers;
  for (auto i : kj::indices(members)) {
    auto& peer = members[i];
    // Two workers do not know each other's endpoint.
    if (i == own || (!controlPlane && peer.endpoint.size() == 0)) continue;
    // If several peers have the same address, the kernel gives it to the last one; it prefers the
    // narrower network.
    bool first = !controlPlane && peers.size() == 0;
    peers.add(peerText(peer, first ? kj::str(network) : kj::str(peer.address, "/32")));
  }
  return kj::str(
      "machine:\n  network:\n    interfaces:\n      - interface: wg0\n        mtu: ", kWireguardMtu,
      "\n        cidr: ", me.address, "/", network.length,
      "\n        wireguard:\n          privateKey: ", me.privateKey, "\n",
      controlPlane ? kj::str("          listenPort: ", kWireguardPort, "\n") : kj::str(),
      peers.size() == 0 ? kj::str() : kj::str("          peers:\n", kj::strArray(peers, "")));
}

void addDefaultRoute(kj::Vector<kj::String>& routes, kj::StringPtr all, kj::StringPtr gateway) {
  if (gateway.size() == 0) return;
  routes.add(kj::str("{network: ", jsonString(all), ", gateway: ", jsonString(gateway), "}"));
}

// Returns the addresses and default routes of the node. A patch has one item for a link, because
// items of one link become one.
kj::String linkText(const config::NodeSettings& settings) {
  kj::Vector<kj::String> routes;
  addDefaultRoute(routes, "0.0.0.0/0", settings.gateway);
  if (settings.cidr6.size() > 0) addDefaultRoute(routes, "::/0", settings.gateway6);
  return kj::str(
      "cidr: ", jsonString(settings.cidr),
      settings.cidr6.size() == 0 ? kj::str()
                                 : kj::str(", addresses: [", jsonString(settings.cidr6), "]"),
      routes.empty() ? kj::str() : kj::str(", routes: [", kj::strArray(routes, ", "), "]"));
}

}  // namespace

kj::Vector<talosctl::Patch> wireguardPatches(rpc::LocalCluster::Reader cluster,
                                             kj::StringPtr cidr) {
  auto network = wireguardNetwork(cluster, cidr);
  kj::Vector<Member> members;
  for (auto node : cluster.getNodes()) {
    auto& member = members.add(Member());
    member.address = nth(network, 2 + members.size() - 1).toString();
    member.privateKey = makePrivateKey();
    auto secret = KJ_ASSERT_NONNULL(netlink::WireguardSecret::parse(member.privateKey));
    member.publicKey = netlink::toText(secret.publicKey());
    if (node.getType() != "join") {
      member.endpoint = Endpoint{Ip::require(node.getAddress()), kWireguardPort}.toString();
    }
  }
  kj::Vector<talosctl::Patch> patches;
  for (auto i : kj::indices(members)) {
    patches.add(talosctl::Patch{kj::str("--wireguard-cidr"), memberText(members, i, network)});
  }
  return patches;
}

talosctl::Patch insecureRegistries(kj::ArrayPtr<const kj::String> hosts) {
  kj::Vector<kj::String> entries;
  for (auto& host : hosts) {
    if (host.size() == 0 || host.findFirst('/') != nullptr) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("--registry-insecure-skip-verify: \"", host,
                   "\" is not a valid registry; use its host, such as 10.5.0.1:5000"));
    }
    entries.add(kj::str(jsonString(host), ": {tls: {insecureSkipVerify: true}}"));
  }
  return {kj::str("--registry-insecure-skip-verify"),
          kj::str("machine: {registries: {config: {", kj::strArray(entries, ", "), "}}}\n")};
}

talosctl::Patch customCni(kj::StringPtr url) {
  return {kj::str("--custom-cni-url"),
          kj::str("cluster: {network: {cni: {name: custom, urls: [", jsonString(url), "]}}}\n")};
}

talosctl::Patch imageCachePatch() {
  return {kj::str("--image-cache"),
          kj::str("machine: {features: {imageCache: {localEnabled: true}}}\n")};
}

talosctl::Patch encryption(bool state, bool ephemeral) {
  constexpr auto kOne = ": {provider: luks2, keys: [{nodeID: {}, slot: 0}]}"_kj;
  kj::Vector<kj::String> partitions;
  if (state) partitions.add(kj::str("state", kOne));
  if (ephemeral) partitions.add(kj::str("ephemeral", kOne));
  return {kj::str(state ? "--encrypt-state" : "--encrypt-ephemeral"),
          kj::str("machine: {systemDiskEncryption: {", kj::strArray(partitions, ", "), "}}\n")};
}

talosctl::Patch metricsPatch() {
  return {kj::str("--with-metrics"), kj::str("machine: {metrics: {port: ", kMetricsPort, "}}\n")};
}

talosctl::Patch settingsPatch(const config::NodeSettings& settings) {
  kj::Vector<kj::String> machine;
  machine.add(kj::str("hostname: ", jsonString(settings.hostname)));
  auto link = settings.ignoreInterface ? kj::str("ignore: true") : linkText(settings);
  auto vip =
      settings.vip.size() == 0 ? kj::str() : kj::str(", vip: {ip: ", jsonString(settings.vip), "}");
  machine.add(kj::str("interfaces: [{interface: ", settings.interface, ", ", link, vip, "}]"));
  if (settings.nameservers.size() > 0) {
    machine.add(kj::str("nameservers: ", jsonList(settings.nameservers)));
  }
  auto sans = settings.certSans.size() == 0
                  ? kj::str()
                  : kj::str("  certSANs: ", jsonList(settings.certSans), "\n");
  return {kj::str("the node's settings"),
          kj::str("machine:\n", sans, "  time: {servers: ", jsonList(settings.timeServers),
                  "}\n  network: {", kj::strArray(machine, ", "), "}\n")};
}

}  // namespace talos::cluster
