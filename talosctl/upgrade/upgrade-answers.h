// The state of a node's upgrade, as the node reports it.
#pragma once

#include "common/base/error.h"
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

// Returns the error of an upgrade with --live as the user reads it: a system that does not know it
// refuses its health timeout (rpc/upgrade.capnp).
inline kj::Exception explainedLive(kj::Exception e) {
  if (kindOf(e) != ErrorKind::kInvalidArgument || !messageOf(e).startsWith("the health timeout")) {
    return e;
  }
  return error(ErrorKind::kFailedPrecondition,
               "the system of the node is older than --live, and reboots for each upgrade; leave "
               "out --live; nothing was changed");
}

}  // namespace talos::talosctl
