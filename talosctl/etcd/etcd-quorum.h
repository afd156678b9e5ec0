// Describes how a change of etcd's members affects the number of members that may fail. Pure.
#pragma once

#include <kj/string.h>

#include "rpc/etcd.capnp.h"

namespace talos::talosctl {

using EtcdMembers = capnp::List<rpc::Etcd::Member>::Reader;

// Returns "etcd has 3 voters, which tolerate 1 failure (1 does not answer)".
kj::String quorumText(EtcdMembers members);

// Returns the same for the remaining members without this one: "without master-2 it has 2 voters,
// which tolerate no failure". `member`: an id in hexadecimal or a name; empty: the member of the
// node that answered.
kj::String quorumTextWithout(EtcdMembers members, kj::StringPtr member);

// The fate of the member of the node that answered, before the node is erased or restarted.
// departureText() describes the present and the future tolerance.
enum class EtcdDeparture {
  kLeaves,    // the member leaves before
  kErased,    // the member does not leave: the others still count it
  kRestarts,  // the member comes back unchanged
  kRejoins,   // the member leaves, and joins again with a new disk
};
kj::String departureText(EtcdMembers members, EtcdDeparture departure);

// Returns an id such as "8e9e05c52164694d".
kj::String memberIdText(uint64_t id);

}  // namespace talos::talosctl
