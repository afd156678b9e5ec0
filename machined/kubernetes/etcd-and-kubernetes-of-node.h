// etcd and Kubernetes in the API of a node: forwards calls to the daemons of a control-plane node,
// and refuses them on a worker, which has neither. Keeps nothing.
#pragma once

#include "machined/config/controllers/machine-config-reader.h"
#include "rpc/kubernetes.capnp.h"
#include "rpc/local.capnp.h"

namespace talos::machined {

// Returns the etcd interface of the node. `config` and `store` outlive it. A worker still reports
// its bootstrap state, which is that it has no etcd: other nodes query it before they make a
// cluster.
rpc::EtcdSupervisor::Client etcdOfNode(rpc::EtcdSupervisor::Client supervisor,
                                       MachineConfigReader& config, Store& store);
// The same, for a client whose name etcd-supervisor gets.
rpc::EtcdSupervisor::Client etcdForClient(rpc::EtcdSupervisor::Client supervisor,
                                          kj::Function<kj::String()> client);
rpc::Kubed::Client kubernetesOfNode(rpc::Kubed::Client kubed, MachineConfigReader& config,
                                    Store& store);

}  // namespace talos::machined
