// For tests: an API server of Kubernetes on loopback, over TLS, for a cluster of the test's process
// whose one node, 10.0.0.2, runs all of a release.
#pragma once

#include "common/kube/test-kube-server.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {

class TestKubernetes {
 public:
  TestKubernetes(TestCluster& c, kj::StringPtr release)
      : c(c),
        release(kj::str(release)),
        model(c.test.deps.timer),
        tls(c.serverCredentials()),
        listener(c.test.deps.lowLevel.wrapListenSocketFd(listenTcp("127.0.0.1", 0))),
        serving(serve().eagerlyEvaluate([](kj::Exception&&) {})) {
    model.addUsualKinds();
    for (auto kind : {"Validating", "Mutating"}) {
      auto plural = kj::str(kind[0] == 'V' ? "validating" : "mutating", "webhookconfigurations");
      model.addKind({kj::str("admissionregistration.k8s.io"), kj::str("v1"), kj::mv(plural),
                     kj::str(kind, "WebhookConfiguration"), false});
    }
    model.put("/api/v1/namespaces/kube-system", {{"metadata", {{"name", "kube-system"}}}});
    model.instead = [this](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
      if (asked.path != "/metrics") return nullptr;
      return metrics;
    };
    addNode();
    addProxy();
    for (auto part : {"kube-apiserver"_kj, "kube-controller-manager"_kj, "kube-scheduler"_kj}) {
      addPod(part);
    }
  }
  KJ_DISALLOW_COPY_AND_MOVE(TestKubernetes);

  kube::ModelKube::Reply metrics{200, "process_start_time_seconds 1.7e+09\n", ""};

  // Returns the kubeconfig that the node gives to clients.
  kj::String kubeconfig() {
    auto leaf = pki::issue(c.authority.certificate, c.authority.key, {.server = false});
    return kj::str(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: "
        "{cluster: c1, user: a}}]\nclusters: [{name: c1, cluster: {server: 'https://127.0.0.1:",
        listener->getPort(),
        "', certificate-authority-data: ", TestCluster::base64(c.authority.certificate),
        "}}]\nusers: [{name: a, user: {client-certificate-data: ",
        TestCluster::base64(leaf.certificate), ", client-key-data: ", TestCluster::base64(leaf.key),
        "}}]\n");
  }

 private:
  using Json = kube::Json;
  TestCluster& c;
  kj::String release;
  kube::ModelKube model;
  TlsEndpoint tls;
  struct Quiet final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}
  } quiet;
  kj::TaskSet connections{quiet};
  kj::Own<kj::ConnectionReceiver> listener;
  kj::Promise<void> serving;

  kj::Promise<void> serve() {
    for (;;) {
      auto stream = co_await listener->accept();
      connections.add(tls.accept(kj::mv(stream), kj::str("client"))
                          .then([this](TlsEndpoint::Accepted&& accepted) {
                            return model.serve(kj::mv(accepted.stream));
                          }));
    }
  }
  std::string image(kj::StringPtr name) {
    return kj::str("registry.k8s.io/", name, ":v", release).cStr();
  }
  static Json ready() { return Json::array({Json{{"type", "Ready"}, {"status", "True"}}}); }

  void addNode() {
    model.put(
        "/api/v1/nodes/n1",
        {{"metadata",
          {{"name", "n1"}, {"labels", {{"node-role.kubernetes.io/control-plane", ""}}}}},
         {"status",
          {{"addresses", Json::array({Json{{"type", "InternalIP"}, {"address", "10.0.0.2"}}})},
           {"conditions", ready()},
           {"nodeInfo", {{"kubeletVersion", kj::str("v", release).cStr()}}}}}});
  }
  void addProxy() {
    Json container{{"name", "kube-proxy"}, {"image", image("kube-proxy")}};
    model.put("/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy",
              {{"metadata", {{"name", "kube-proxy"}, {"generation", 1}}},
               {"spec", {{"template", {{"spec", {{"containers", Json::array({container})}}}}}}},
               {"status",
                {{"observedGeneration", 1},
                 {"desiredNumberScheduled", 1},
                 {"updatedNumberScheduled", 1},
                 {"numberAvailable", 1},
                 {"currentNumberScheduled", 1}}}});
  }
  // Adds a pod as made from version 1 of its definition.
  void addPod(kj::StringPtr part) {
    model.put(kj::str("/api/v1/namespaces/kube-system/pods/", part, "-n1"),
              {{"metadata",
                {{"name", kj::str(part, "-n1").cStr()},
                 {"labels", {{"k8s-app", part.cStr()}}},
                 {"ownerReferences", Json::array({Json{{"kind", "Node"}, {"name", "n1"}}})},
                 {"annotations",
                  {{"talos.dev/config-version", "1"}, {"talos.dev/secrets-version", "1"}}}}},
               {"spec", {{"nodeName", "n1"}}},
               {"status", {{"conditions", ready()}}}});
  }
};

}  // namespace talos::talosctl
