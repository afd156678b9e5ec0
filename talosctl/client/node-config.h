// The config of a node: read, and another one sent (rpc/configuration.capnp).
#pragma once

#include "rpc/configuration.capnp.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

constexpr kj::StringPtr kConfigId = "v1alpha1"_kj;

// The config that a node runs with. Its text holds secrets: zeroize() it.
struct RunningConfig {
  kj::String document;
  uint64_t version = 0;
};
// An empty namespace is that of configs.
kj::Promise<RunningConfig> runningConfig(rpc::Node::Client node, kj::StringPtr nameSpace = "",
                                         kj::StringPtr id = kConfigId);

// To be completed and sent. `version`: of the config that the document is based on; the node
// refuses it if another one is running. 0: any.
using ApplyCall = capnp::Request<rpc::Configuration::ApplyParams, rpc::Configuration::ApplyResults>;
ApplyCall applyCall(rpc::Node::Client node, kj::StringPtr document, uint64_t version,
                    rpc::ApplyMode mode, bool dryRun);

}  // namespace talos::talosctl
