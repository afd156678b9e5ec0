// Checks with etcd, before this machine is erased or restarted, if its cluster can do without this
// node, and makes the node leave the cluster.
//
// Every query has a deadline: an etcd that does not answer delays no caller for ever, and without
// an answer the caller must not continue as if all were well. No state is kept here.
// etcd-supervisor carries out the departure and has its state on disk
// (etcd-supervisor/membership/cluster-leave.h): after an interruption at any line, the node is a
// member or has left, and a repeated call continues from there.
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
    kj::Function<bool()> runsEtcd;  // as the config says
    rpc::EtcdSupervisor::Client supervisor;
    kj::Function<void(kj::StringPtr)> print;  // prints to the console
  };
  explicit EtcdDeparture(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(EtcdDeparture);

  using Outlook = capnp::Response<rpc::EtcdSupervisor::OutlookResults>;

  // Resolves to nullptr if this machine has no etcd. Rejects when etcd-supervisor does not answer
  // within 15 s.
  kj::Promise<kj::Maybe<Outlook>> outlook(rpc::DepartureKind going);

  // The same, but rejects with `kind` if there is an objection, or no answer. `otherwise`: the
  // alternative for the message, "or use --force".
  kj::Promise<kj::Maybe<Outlook>> require(rpc::DepartureKind going, ErrorKind kind,
                                          kj::StringPtr otherwise);

  // Resolves when this node is in no cluster, or, if it restarts, has its turn. With `force` it
  // resolves in any case, and prints the outcome, as no other part would. Rejects as require()
  // does, also for an objection that is found only now, and when the node has not left within 100
  // s; the caller may repeat it.
  kj::Promise<void> leave(rpc::DepartureKind going, bool force, ErrorKind kind,
                          kj::StringPtr otherwise);

  // Gives back the turn of a node that does not restart after all. Does not reject: the turn ends
  // by itself.
  kj::Promise<void> stay();

 private:
  Dependencies deps;

  kj::Promise<void> withdraw(rpc::DepartureKind going, bool force);
};

}  // namespace talos::machined
