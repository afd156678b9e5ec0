// Links that the machine config creates: bonds, bridges, VLANs, dummies and WireGuard tunnels, as
// values between the config and the LinkSpecs. Part of network-config-plan.h.
//
// Private keys are in the values and are published only as WireguardKeys resources, which are
// secret; a LinkSpec has the public key. An invalid peer is left out.
#pragma once

#include <kj/memory.h>
#include <kj/string.h>
#include <kj/vector.h>

#include <memory>

#include "common/netlink/netlink-wireguard.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/config.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {

// The options of a bond, copied from the config. `interfaces` are its members.
class BondConfig {
 public:
  explicit BondConfig(config::Bond::Reader bond) { message.setRoot(bond); }
  config::Bond::Reader get() const { return message.getRoot<config::Bond>().asReader(); }

 private:
  mutable capnp::MallocMessageBuilder message;  // a builder has no reading side
};

struct BridgeConfig {
  kj::Vector<kj::String> interfaces;
  bool stp = false, vlanFiltering = false;
};
BridgeConfig bridgeConfig(config::Bridge::Reader bridge);

struct WireguardConfig {
  struct Peer {
    kj::String publicKey, endpoint;  // base64; host:port
    uint32_t keepalive = 0;          // s
    kj::Vector<kj::String> allowed;  // CIDR
  };
  kj::Maybe<netlink::WireguardSecret> privateKey;  // nullptr: it cannot be read
  uint16_t listenPort = 0;
  uint32_t firewallMark = 0;
  kj::Vector<Peer> peers;
};
WireguardConfig wireguardConfig(config::Wireguard::Reader wireguard);

// The kind of a link with its options: one of these; no options for hardware.
struct LinkMaking {
  kj::String kind;    // "bond", "bridge", "vlan", "dummy", "wireguard"; empty: hardware
  kj::String parent;  // parent of a VLAN
  kj::String master;  // the link's bond or bridge
  uint16_t vlanId = 0;
  std::shared_ptr<const BondConfig> bond;
  std::shared_ptr<const BridgeConfig> bridge;
  std::shared_ptr<const WireguardConfig> wireguard;

  void fill(rpc::LinkSpecSpec::Builder spec) const;
};

// Returns "eth0.100"; nullptr if the name has more than the 15 characters of a link's name.
kj::Maybe<kj::String> vlanName(kj::StringPtr parent, uint16_t id);

}  // namespace talos::machined
