// How etcd has to run on this node: publishes EtcdSpecs/etcd, with the command-line arguments of
// etcd or with what etcd waits for. The functions are pure.
//
// cluster.etcd.extraArgs replaces all but the arguments that the node sets itself. Flags that only
// some versions of etcd know are passed only to these versions: another version would not start
// with them.
#pragma once

#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

// The wait of an etcd whose log is lost; also in the message of EtcdStatus.
constexpr kj::StringPtr kLostLog =
    "its data: /var/lib/etcd has files but no log of etcd (member/wal); recover them, or erase "
    "them with talosctl reset --system-labels-to-wipe=EPHEMERAL"_kj;

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

// `running`: the spec so far, if the service runs by it. `snapshot`: path of the snapshot, for an
// intent that recovers. `routed`: etcd must use the proxy.
Wanted wantedOf(const Config& config, const Intent& intent, Data data,
                kj::Maybe<const Wanted&> running, kj::StringPtr snapshot, bool routed = false);

class EtcdSpec {
 public:
  EtcdSpec(Dependencies& deps, LocalMember& self) : deps(deps), self(self) {}
  KJ_DISALLOW_COPY_AND_MOVE(EtcdSpec);

  // Publishes each change of the spec, until dropped.
  kj::Promise<void> publish();
  // Publishes the spec of a node without an intent and data, which therefore waits. The spec of its
  // state may follow after repeat().
  kj::Promise<void> publishWithoutIntent();
  // Publishes the spec again, even if it is the last one that publish() has published.
  void repeat();

 private:
  Dependencies& deps;
  LocalMember& self;
  bool publishedOther = false;  // machined may have another spec than publish() published

  Wanted wanted(const Config& config);
};

}  // namespace talos::supervisor
