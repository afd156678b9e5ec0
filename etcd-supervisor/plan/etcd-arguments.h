// Command-line arguments of etcd. Pure.
//
// cluster.etcd.extraArgs replaces all but the arguments that the node sets itself. Flags that only
// some versions of etcd know are passed only to these versions: another version would not start
// with them.
#pragma once

#include "etcd-supervisor/plan/membership-types.h"

namespace talos::supervisor {

// Origin of the member's data.
struct Start {
  enum class From { kData, kNew, kExisting };
  From from = From::kData;
  // kExisting: initial-cluster. kNew: initial-cluster-token, from which etcd derives the ids of the
  // cluster and its members: two clusters made at the same place at different times never mistake
  // each other for the same one.
  kj::String cluster;
};

// Returns the arguments without dashes, sorted by name, each once.
kj::Vector<Argument> argumentsOf(const Config& config, const Start& start);

// Returns the same arguments with the first-start arguments that `running` has: a running member is
// not restarted only because it is now old enough to do without them.
kj::Vector<Argument> keepFirstStart(kj::Vector<Argument> arguments,
                                    kj::ArrayPtr<const Argument> running);

// Returns the names of the members and the URLs of each, in the form of initial-cluster. The
// unnamed member with this id is called `name`; other unnamed members are called by their ids.
kj::String initialCluster(kj::ArrayPtr<const etcd::Member> members, etcd::MemberId own,
                          kj::StringPtr name);

}  // namespace talos::supervisor
