// Next step of a node with an empty data directory towards becoming a member. Pure.
#pragma once

#include "etcd-supervisor/plan/membership-types.h"

namespace talos::supervisor {

struct JoinStep {
  enum class What { kAdd, kRemove, kWait };
  What what = What::kAdd;
  etcd::MemberId member = 0;  // for kRemove
  kj::String message;         // the awaited event, or the removed entry and the cause
};

// `members`: all of the cluster, in the order of the list. An entry with this node's name or its
// peer URL is left from an earlier life of the node, whose data is gone: it is removed, so that no
// quorum counts a lost vote. A member with this name that answers is another node.
JoinStep planJoin(kj::StringPtr name, kj::StringPtr peerUrl,
                  kj::ArrayPtr<const MemberProbe> members);

}  // namespace talos::supervisor
