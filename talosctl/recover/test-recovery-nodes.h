// For tests: control-plane nodes 10.5.0.2, 10.5.0.3 … with the members m-1, m-2 …
#pragma once

#include <vector>

#include "talosctl/recover/recovery-plan.h"

namespace talos::talosctl {

inline RecoveryNode emptyNode(unsigned number) {
  RecoveryNode node;
  node.address = kj::str("10.5.0.", number + 1);
  node.hostname = kj::str("new-", number);
  node.bootId = kj::str("boot-", number);
  node.controlPlane = true;
  node.phase = kj::str("waiting");
  return node;
}

// Without a quorum; these are the members of its cluster.
inline RecoveryNode survivorOf(unsigned number, std::vector<unsigned> members) {
  auto node = emptyNode(number);
  node.hostname = kj::str("m-", number);
  node.phase = kj::str("member");
  node.revision = 100;
  for (auto member : members) {
    node.members.add(KnownMember{kj::str("m-", member), kj::str("10.5.0.", member + 1), false});
  }
  return node;
}

}  // namespace talos::talosctl
