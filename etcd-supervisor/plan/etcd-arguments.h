// The command-line arguments of etcd. Pure.
//
// cluster.etcd.extraArgs replaces all but the arguments that the node sets itself. Flags that only
// some versions of etcd know are passed to those only: another version would not start with them.
#pragma once

#include "etcd-supervisor/plan/membership-types.h"

namespace talos::supervisor {

// The origin of the member's data.
struct Start {
  enum class From { kData, kNew, kExisting };
  From from = From::kData;
  // kExisting: initial-cluster. kNew: initial-cluster-token, of which etcd makes the ids of the
  // cluster and its members: two that are made at the same place at different times never take
  // each other for one.
  kj::String cluster;
};

// Without dashes, sorted by name, each once.
kj::Vector<Argument> argumentsOf(const Config& config, const Start& start);

// The same arguments with those of the first start that `running` has: a member that runs is not
// restarted because it has become old enough to do without them.
kj::Vector<Argument> keepFirstStart(kj::Vector<Argument> arguments,
                                    kj::ArrayPtr<const Argument> running);

// Names of the members and the URLs of each, as initial-cluster has them. The one that is not named
// yet and has this id is called `name`; others without a name are called by their ids.
kj::String initialCluster(kj::ArrayPtr<const etcd::Member> members, etcd::MemberId own,
                          kj::StringPtr name);

}  // namespace talos::supervisor
