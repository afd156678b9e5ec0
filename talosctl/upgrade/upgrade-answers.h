// The state of a node's upgrade, as the node reports it.
#pragma once

#include "rpc/machine-resources.capnp.h"
#include "talosctl/client/node-resource.h"

namespace talos::talosctl {

using UpgradeAnswer = ResourceAnswer;
inline rpc::UpgradeStatusSpec::Reader upgradeStatusOf(const UpgradeAnswer& answer) {
  return resourceIn<rpc::UpgradeStatusSpec>(answer);
}
// Returns the progress of the node's fetch; empty if no fetch is under way, or if the node does not
// report it.
inline kj::String fetchProgress(rpc::UpgradeStatusSpec::Reader status) {
  return status.getStage() == "fetching" ? kj::str(status.getReason()) : kj::String();
}

inline kj::Promise<UpgradeAnswer> askUpgradeStatus(rpc::Node::Client node) {
  return getResource<rpc::UpgradeStatusSpec>(kj::mv(node), "node");
}

}  // namespace talos::talosctl
