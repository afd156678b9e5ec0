// The machine configs of a local cluster: `gen config` for its addresses, with real secrets.
#pragma once

#include <kj/string.h>

#include "common/config/config-generate.h"
#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/disks/user-disks.h"
#include "talosctl/config/patches.h"

namespace talos::cluster {

struct ConfigOptions {
  config::GenerateOptions generate;
  kj::ArrayPtr<const kj::String> nameservers = nullptr;
  kj::StringPtr inputFolder = "";  // folder of existing configs; empty: generates new ones
  kj::StringPtr wireguardCidr = "", customCniUrl = "";
  kj::ArrayPtr<const kj::String> insecureRegistries = nullptr;
  kj::StringPtr endpoint = "";  // endpoint in the talosconfig; empty: those of the nodes
  bool firstNodeIsEndpoint = false;
  bool imageCache = false;  // nodes take images from the folder of --image-cache
  bool useVip = false;      // the shared address is the host of the Kubernetes API
  bool encryptState = false, encryptEphemeral = false;  // for virtual machines
  kj::Vector<UserDiskRequest> userDisks = {};           // for virtual machines
  // Patches for every node, and then for the nodes of a kind.
  kj::ArrayPtr<const talosctl::Patch> patches = nullptr, controlPlanePatches = nullptr,
                                      joinPatches = nullptr;
  // Receives each warning of the patches and of the patched configs once.
  kj::Vector<kj::String>* warnings = nullptr;
};

// Writes <node>.yaml (0600) for every node and `talosconfig` (0600), with one context, into the
// state folder; returns the path of the talosconfig. Its endpoints are the nodes' loopback
// addresses, unless the options name another; its nodes are the addresses of the masters. Throws
// InvalidArgument for contradictory options before anything is written.
kj::String writeConfigs(rpc::LocalCluster::Reader cluster, kj::StringPtr stateFolder,
                        const ConfigOptions& options);

}  // namespace talos::cluster
