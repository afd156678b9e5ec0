// Nodes and surveys of a healthy cluster of two control planes and a worker, which tests change.
#pragma once

#include <capnp/message.h>

#include "common/health/run-health.h"

namespace talos {

class ModelNode {
 public:
  explicit ModelNode(kj::StringPtr name) : name(kj::str(name)) {
    auto list = services.initRoot<rpc::Services::ListResults>().initServices(2);
    list[0].setId("etcd");
    list[1].setId("kubelet");
    for (auto service : list) {
      service.setState(rpc::ServiceState::RUNNING);
      service.getHealth().setUnknown(false);
      service.getHealth().setHealthy(true);
    }
    status.initRoot<rpc::Status>().setStage(rpc::Status::Stage::RUNNING);
  }
  rpc::Service::Builder service(unsigned index) {
    return services.getRoot<rpc::Services::ListResults>().getServices()[index];
  }
  rpc::Status::Builder state() { return status.getRoot<rpc::Status>(); }
  // Adds a service to the others.
  rpc::Service::Builder addService(kj::StringPtr id) {
    auto old = services.getRoot<rpc::Services::ListResults>().disownServices();
    auto list = services.getRoot<rpc::Services::ListResults>().initServices(3);
    for (unsigned i = 0; i < 2; ++i) list.setWithCaveats(i, old.get()[i]);
    list[2].setId(id);
    return list[2];
  }

  NodeFacts facts() {
    NodeFacts facts{.node = kj::str(name),
                    .silence = nullptr,
                    .version = {},
                    .status = {},
                    .services = {},
                    .held = {}};
    KJ_IF_MAYBE (error, silence) {
      facts.silence = kj::str(*error);
    } else {
      facts.unregistered = unregistered;
      facts.status = state().asReader();
      facts.services = services.getRoot<rpc::Services::ListResults>().getServices().asReader();
      for (auto& name : disabled) facts.disabled.add(kj::str(name));
    }
    return facts;
  }
  kj::String name;
  kj::Maybe<kj::String> silence;
  kj::Vector<kj::String> disabled;  // components of the control plane
  bool unregistered = false;

 private:
  capnp::MallocMessageBuilder services, status;
};

struct ModelHealth {
  ModelNode nodes[3] = {ModelNode("10.5.0.2"), ModelNode("10.5.0.3"), ModelNode("10.5.0.4")};
  capnp::MallocMessageBuilder message;
  rpc::Survey::Builder survey = message.initRoot<rpc::Survey>();
  ClusterNodes expected;

  ModelHealth() {
    for (unsigned i = 0; i < 3; ++i) {
      (i < 2 ? expected.controlPlane : expected.workers).add(kj::str("10.5.0.", i + 2));
    }
    auto list = survey.initNodes(3);
    for (unsigned i = 0; i < 3; ++i) {
      list[i].setName(kj::str("n", i + 1));
      list[i].initAddresses(1).set(0, kj::str("10.5.0.", i + 2));
      list[i].setReady(true);
      list[i].setControlPlane(i < 2);
    }
    auto workloads = survey.initWorkloads(2);
    setWorkload(workloads[0], "DaemonSet", "kube-proxy", 3);
    setWorkload(workloads[1], "ReplicaSet", "kube-dns", 2);
    auto pods = survey.initPods(11);
    unsigned next = 0;
    for (auto app : {"kube-apiserver"_kj, "kube-controller-manager"_kj, "kube-scheduler"_kj}) {
      for (unsigned i = 0; i < 2; ++i) setPod(pods[next++], app, i);
    }
    for (unsigned i = 0; i < 3; ++i) setPod(pods[next++], "kube-proxy", i);
    for (unsigned i = 0; i < 2; ++i) setPod(pods[next++], "kube-dns", i);
  }

  // Returns a pod of this app, counted from 0.
  rpc::Survey::Pod::Builder pod(kj::StringPtr app, unsigned index) {
    for (auto one : survey.getPods()) {
      if (one.getApp() == app && index-- == 0) return one;
    }
    KJ_FAIL_REQUIRE("no such pod", app);
  }
  kj::Array<NodeFacts> facts(kj::ArrayPtr<const kj::String> names) {
    kj::Vector<NodeFacts> result;
    for (auto& wanted : names) {
      for (auto& node : nodes) {
        if (node.name == wanted) result.add(node.facts());
      }
    }
    return result.releaseAsArray();
  }

 private:
  static void setWorkload(rpc::Survey::Workload::Builder out, kj::StringPtr kind, kj::StringPtr app,
                          unsigned count) {
    out.setKind(kind);
    out.setName(app);
    out.setApp(app);
    out.setDesired(count);
    out.setReady(count);
  }
  static void setPod(rpc::Survey::Pod::Builder out, kj::StringPtr app, unsigned index) {
    out.setNamespace("kube-system");
    out.setName(kj::str(app, "-", index));
    out.setApp(app);
    out.setPhase("Running");
    out.setReady(true);
  }
};

}  // namespace talos
