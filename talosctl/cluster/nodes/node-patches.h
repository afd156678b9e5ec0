// Patches of the nodes' configs for flags of `cluster create`, as texts to merge
// (talosctl/config/patch.h): a WireGuard network, registries without verified certificates, a CNI
// of the user, metrics, and the settings of a node that a foreign config lacks.
//
// Pure, except for the keys of the WireGuard network, which are new each time.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/config/config-generate.h"
#include "rpc/cluster.capnp.h"
#include "talosctl/config/patches.h"

namespace talos::cluster {

// Returns one patch for each node, for --wireguard-cidr. Every node is in the network: at the
// network's address + 2 and counting, on the link wg0. Control-plane nodes listen on port 51111 and
// are the peers of all others; a worker reaches all other nodes through the first control-plane
// node. Throws InvalidArgument, naming the flag, if the network is too small or is the nodes' own
// network.
kj::Vector<talosctl::Patch> wireguardPatches(rpc::LocalCluster::Reader cluster, kj::StringPtr cidr);

// Returns the patch for --registry-insecure-skip-verify: host[:port] of each registry.
talosctl::Patch insecureRegistries(kj::ArrayPtr<const kj::String> hosts);

// Returns the patch for --custom-cni-url.
talosctl::Patch customCni(kj::StringPtr url);

// Returns the patch for --with-metrics.
talosctl::Patch metricsPatch();

// Returns the patch for --image-cache.
talosctl::Patch imageCachePatch();

// Returns the patch for --encrypt-state and --encrypt-ephemeral: a key derived from the machine's
// UUID in slot 0.
talosctl::Patch encryption(bool state, bool ephemeral);

// Returns the patch for --input-dir: the settings that depend on the node's place in the cluster,
// for a config that was made without them. Changes nothing else in the config.
talosctl::Patch settingsPatch(const config::NodeSettings& settings);

}  // namespace talos::cluster
