#include "machined/kubernetes/etcd-and-kubernetes-of-node.h"

#include "common/base/error.h"
#include "common/config/config.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

// The etcd interface of a worker.
class NoEtcd final : public rpc::Etcd::Server {
 public:
  explicit NoEtcd(Store& store) : store(store) {}

  DispatchCallResult dispatchCall(
      uint64_t interfaceId, uint16_t methodId,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    auto stateMethod =
        capnp::Schema::from<rpc::Etcd>().getMethodByName("bootstrapState").getIndex();
    if (methodId != stateMethod) {
      fail(ErrorKind::kFailedPrecondition,
           "this node is a worker and has no etcd; name a control-plane node with -n");
    }
    return rpc::Etcd::Server::dispatchCall(interfaceId, methodId, kj::mv(context));
  }

  kj::Promise<void> bootstrapState(BootstrapStateContext context) override {
    auto out = context.getResults().initState();
    for (auto spec : store.list<rpc::HostnameSpecSpec>()) out.setName(spec.getHostname());
    out.setState(rpc::Etcd::BootstrapState::State::NONE);
    return kj::READY_NOW;
  }

 private:
  Store& store;
};

class EtcdSupervisorProxy final : public rpc::EtcdSupervisor::Server {
 public:
  EtcdSupervisorProxy(rpc::EtcdSupervisor::Client supervisor, MachineConfigReader& config,
                      Store& store)
      : supervisor(kj::mv(supervisor)), config(config), store(store) {}

  kj::Promise<void> etcd(EtcdContext context) override {
    KJ_IF_MAYBE (c, config.tryConfig(store)) {
      if (!config::isControlPlane(c->getMachine().getType())) {
        context.getResults().setEtcd(kj::heap<NoEtcd>(store));
        return kj::READY_NOW;
      }
      if (!runsEtcd(*c)) {
        fail(ErrorKind::kFailedPrecondition,
             "there is no etcd without cluster.etcd.ca in the machine config");
      }
    }
    auto asked = supervisor.etcdRequest();
    asked.setRequest(context.getParams().getRequest());
    asked.setClient(context.getParams().getClient());
    context.getResults().setEtcd(asked.send().getEtcd());
    return kj::READY_NOW;
  }
  kj::Promise<void> joinTokens(JoinTokensContext context) override {
    context.getResults().setTokens(supervisor.joinTokensRequest().send().getTokens());
    return kj::READY_NOW;
  }

 private:
  rpc::EtcdSupervisor::Client supervisor;
  MachineConfigReader& config;
  Store& store;
};

// The supervisor's interface for one client, whose name is added to calls.
class EtcdForClient final : public rpc::EtcdSupervisor::Server {
 public:
  EtcdForClient(rpc::EtcdSupervisor::Client supervisor, kj::Function<kj::String()> client)
      : supervisor(kj::mv(supervisor)), client(kj::mv(client)) {}

  kj::Promise<void> etcd(EtcdContext context) override {
    auto asked = supervisor.etcdRequest();
    asked.setRequest(context.getParams().getRequest());
    asked.setClient(client());
    context.getResults().setEtcd(asked.send().getEtcd());
    return kj::READY_NOW;
  }

 private:
  rpc::EtcdSupervisor::Client supervisor;
  kj::Function<kj::String()> client;
};

class KubedProxy final : public rpc::Kubed::Server {
 public:
  KubedProxy(rpc::Kubed::Client kubed, MachineConfigReader& config, Store& store)
      : kubed(kj::mv(kubed)), config(config), store(store) {}

  kj::Promise<void> kubernetes(KubernetesContext context) override {
    KJ_IF_MAYBE (c, config.tryConfig(store)) {
      if (!config::isControlPlane(c->getMachine().getType())) {
        fail(ErrorKind::kFailedPrecondition,
             "this node is a worker and has no API server of Kubernetes; name a control-plane node "
             "with -n");
      }
    }
    auto asked = kubed.kubernetesRequest();
    asked.setRequest(context.getParams().getRequest());
    context.getResults().setKubernetes(asked.send().getKubernetes());
    return kj::READY_NOW;
  }

 private:
  rpc::Kubed::Client kubed;
  MachineConfigReader& config;
  Store& store;
};

}  // namespace

rpc::EtcdSupervisor::Client etcdOfNode(rpc::EtcdSupervisor::Client supervisor,
                                       MachineConfigReader& config, Store& store) {
  return kj::heap<EtcdSupervisorProxy>(kj::mv(supervisor), config, store);
}

rpc::EtcdSupervisor::Client etcdForClient(rpc::EtcdSupervisor::Client supervisor,
                                          kj::Function<kj::String()> client) {
  return kj::heap<EtcdForClient>(kj::mv(supervisor), kj::mv(client));
}

rpc::Kubed::Client kubernetesOfNode(rpc::Kubed::Client kubed, MachineConfigReader& config,
                                    Store& store) {
  return kj::heap<KubedProxy>(kj::mv(kubed), config, store);
}

}  // namespace talos::machined
