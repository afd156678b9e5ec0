// Patches of the nodes' configs for flags of `cluster create`, as texts to merge (talosctl/config/
// patch.h): a WireGuard network, registries without verified certificates, a
// CNI of the user's, and the settings of a node that a config from elsewhere lacks.
//
// Pure, but for the keys of the WireGuard network, which are new each time.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/config/config-generate.h"
#include "rpc/cluster.capnp.h"
#include "talosctl/config/patches.h"

namespace talos::cluster {

// Of --wireguard-cidr, one patch for each node. Every node is in the network: at the network's
// address + 2 and counting, on the link wg0. Control-plane nodes listen on port 51111 and are the
// peers of all others; a worker reaches what is not a control-plane node through the first one.
// Throws InvalidArgument, naming the flag, for a network that is too small or the nodes' own.
kj::Vector<talosctl::Patch> wireguardPatches(rpc::LocalCluster::Reader cluster, kj::StringPtr cidr);

// Of --registry-insecure-skip-verify: host[:port] of each registry.
talosctl::Patch insecureRegistries(kj::ArrayPtr<const kj::String> hosts);

// Of --custom-cni-url.
talosctl::Patch customCni(kj::StringPtr url);

// Of --encrypt-state and --encrypt-ephemeral: a key made of the machine's UUID in slot 0.
talosctl::Patch encryption(bool state, bool ephemeral);

// For --input-dir: the settings that depend on the node's place in the cluster, for a config that
// was made without it. Nothing else of the config is changed.
talosctl::Patch settingsPatch(const config::NodeSettings& settings);

}  // namespace talos::cluster
