#include "machined/kubernetes/etcd-and-kubernetes-of-node.h"

#include "common/base/error.h"
#include "common/config/config.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

// etcd of a worker.
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
    context.getResults().setEtcd(asked.send().getEtcd());
    return kj::READY_NOW;
  }

 private:
  rpc::EtcdSupervisor::Client supervisor;
  MachineConfigReader& config;
  Store& store;
};

class KubernetesProxy final : public rpc::Kubernetes::Server {
 public:
  KubernetesProxy(rpc::Kubernetes::Client kubed, MachineConfigReader& config, Store& store)
      : kubed(kj::mv(kubed)), config(config), store(store) {}

  kj::Promise<void> survey(SurveyContext context) override {
    needControlPlane();
    return context.tailCall(kubed.surveyRequest());
  }
  kj::Promise<void> tryClient(TryClientContext context) override {
    needControlPlane();
    auto request = kubed.tryClientRequest();
    auto asked = context.getParams();
    request.setAddress(asked.getAddress());
    request.setKubelet(asked.getKubelet());
    request.setAuthority(asked.getAuthority());
    request.setCertificate(asked.getCertificate());
    request.setKey(asked.getKey());
    return context.tailCall(kj::mv(request));
  }
  kj::Promise<void> forgetClientCa(ForgetClientCaContext context) override {
    needControlPlane();
    auto request = kubed.forgetClientCaRequest();
    request.setAuthority(context.getParams().getAuthority());
    return context.tailCall(kj::mv(request));
  }

 private:
  rpc::Kubernetes::Client kubed;
  MachineConfigReader& config;
  Store& store;

  void needControlPlane() {
    KJ_IF_MAYBE (c, config.tryConfig(store)) {
      if (!config::isControlPlane(c->getMachine().getType())) {
        fail(ErrorKind::kFailedPrecondition,
             "this node is a worker and has no API server of Kubernetes; name a control-plane node "
             "with -n");
      }
    }
  }
};

}  // namespace

rpc::EtcdSupervisor::Client etcdOfNode(rpc::EtcdSupervisor::Client supervisor,
                                       MachineConfigReader& config, Store& store) {
  return kj::heap<EtcdSupervisorProxy>(kj::mv(supervisor), config, store);
}

rpc::Kubernetes::Client kubernetesOfNode(rpc::Kubernetes::Client kubed, MachineConfigReader& config,
                                         Store& store) {
  return kj::heap<KubernetesProxy>(kj::mv(kubed), config, store);
}

}  // namespace talos::machined
