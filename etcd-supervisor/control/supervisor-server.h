// etcd-supervisor's own API (rpc/local.capnp, EtcdSupervisor; rpc/etcd.capnp, Etcd). Who may call
// what is decided before it comes here.
#pragma once

#include "etcd-supervisor/membership/keeper.h"
#include "rpc/local.capnp.h"

namespace talos::supervisor {

// Both outlive it.
rpc::EtcdSupervisor::Client makeServer(kj::Timer& timer, Keeper& keeper, Files& files);

}  // namespace talos::supervisor
