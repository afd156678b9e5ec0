// Links that the machine config creates: bonds, bridges, VLANs, dummies, VRFs, pairs of veth and
// WireGuard tunnels, from the config to their LinkSpecs. Part of network-config-plan.h.
//
// A LinkSpec has what the config says: networkd computes the options of a bond (common/bond), and
// reports and leaves out an invalid peer. Private keys are not in LinkSpecs, which have the public
// key; they are published as WireguardKeys resources, which are secret.
#pragma once

#include <capnp/message.h>
#include <kj/memory.h>
#include <kj/string.h>

#include "common/netlink/netlink-wireguard.h"
#include "machined/config/network/network-selector.h"
#include "rpc/config.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {

// A struct of a schema together with its message.
template <typename T>
class OwnStruct {
 public:
  OwnStruct()
      : message(kj::heap<capnp::MallocMessageBuilder>(kWords)),
        root(message->template initRoot<T>()) {}

  typename T::Reader get() const { return root.asReader(); }
  typename T::Builder edit() { return root; }

 private:
  static constexpr unsigned kWords = 32;  // of the first segment: a machine may have many links
  kj::Own<capnp::MallocMessageBuilder> message;
  typename T::Builder root;
};

struct PlannedLink {
  kj::String name;
  unsigned mtu;
  kj::StringPtr layer;
  OwnStruct<rpc::LinkSpecSpec> spec = {};  // kind with its options, parent and master
  kj::Maybe<netlink::WireguardSecret> privateKey = nullptr;

  // "bond", "bridge", "dummy", "veth", "vlan", "vrf", "wireguard"; empty: hardware.
  kj::StringPtr kind() const { return spec.get().getKind(); }
  // Link under a VLAN.
  kj::StringPtr parent() const { return spec.get().getParentName(); }
  // Bond, bridge or VRF of the link.
  kj::StringPtr master() const { return spec.get().getMasterName(); }

  void setKind(kj::StringPtr kind);
  void setVlan(kj::StringPtr parent, uint16_t id, kj::StringPtr protocol = "802.1q"_kj);
  void setBridge(config::Bridge::Reader bridge);
  void setVrf(uint32_t table);
  void setVeth(kj::StringPtr peer);
  // `privateKey` is nullptr afterwards if the key of the config is not valid.
  void setWireguard(config::Wireguard::Reader wireguard);
};

// Makes dummies of the links named dummy0, dummy1 and so on that have no kind, unless a card has
// the name: configs for Talos, whose kernel always has dummy0, do not say that it is a dummy.
void makeDummies(kj::ArrayPtr<PlannedLink> links, kj::ArrayPtr<const KnownLink> known);

// Returns "eth0.100"; nullptr if the name has more than the 15 characters of a link's name.
kj::Maybe<kj::String> vlanName(kj::StringPtr parent, uint16_t id);

}  // namespace talos::machined
