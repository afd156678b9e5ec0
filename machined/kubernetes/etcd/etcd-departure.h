// Asks etcd before this machine is erased or restarted: whether its cluster can do without this
// node; and makes the node leave the cluster.
//
// Every question has a deadline: an etcd that does not answer keeps nobody waiting for ever, and
// who does not know may not go on as if all were well. Nothing is kept here. Leaving is
// etcd-supervisor's work, which has it on disk (etcd-supervisor/membership/cluster-leave.h): cut
// off at any line, the node is a member or has left, and asking again goes on from there.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "common/base/error.h"
#include "rpc/local.capnp.h"

namespace talos::machined {

class EtcdDeparture {
 public:
  struct Dependencies {
    kj::Timer& timer;
    kj::Function<bool()> runsEtcd;  // by its config
    rpc::EtcdSupervisor::Client supervisor;
    kj::Function<void(kj::StringPtr)> print;  // the console
  };
  explicit EtcdDeparture(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(EtcdDeparture);

  using Outlook = capnp::Response<rpc::EtcdSupervisor::OutlookResults>;

  // None: this machine has no etcd. Rejects when etcd-supervisor does not answer within 30 s.
  kj::Promise<kj::Maybe<Outlook>> outlook(rpc::DepartureKind going);

  // The same, rejecting with `kind` when there is an objection, or nobody knows. `otherwise`: "or
  // use --force", which does it all the same.
  kj::Promise<kj::Maybe<Outlook>> require(rpc::DepartureKind going, ErrorKind kind,
                                          kj::StringPtr otherwise);

  // Resolves when this node is in no cluster, or, if it restarts, has its turn; with `force`
  // whatever the outcome: then it is printed, as no other part would. Rejects as require() does,
  // also with what was found only now, and when it has not left within 100 s; repeat it.
  kj::Promise<void> leave(rpc::DepartureKind going, bool force, ErrorKind kind,
                          kj::StringPtr otherwise);

  // One that has its turn does not restart after all: it is given back. Does not reject: the turn
  // ends by itself.
  kj::Promise<void> stay();

 private:
  Dependencies deps;

  kj::Promise<void> withdraw(rpc::DepartureKind going, bool force);
};

}  // namespace talos::machined
