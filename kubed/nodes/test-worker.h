// A worker between models of machined and of the API server, which it reaches by the kubelet's
// certificate; for tests.
#pragma once

#include <gtest/gtest.h>

#include "common/kube/kubeconfig.h"
#include "common/kube/test-kube-server.h"
#include "kubed/nodes/kubelet-access.h"
#include "tests/models/test-machined.h"

namespace talos::kubed {

struct TestWorker : public testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ModelMachined machined{io, kKubedUid};
  kube::ModelKube model{timer};
  kj::Function<double()> random = [] { return 0.0; };
  unsigned made = 0;  // number of clients

  ~TestWorker() noexcept override {}

  // kubed of this worker.
  struct Kubed {
    StoreClient store;
    KubeletAccess access;
    WorkerStoreAdapter adapter;
    NodeDependencies deps;

    explicit Kubed(TestWorker& worker)
        : store(*worker.io.lowLevelProvider, worker.timer, worker.machined.socket(),
                kj::str(kOwner)),
          access(store,
                 [&worker](kube::KubeAccess) {
                   ++worker.made;
                   return kj::heap<kube::KubeClient>(
                       worker.timer, [] { return 0.0; }, worker.model.dialer(),
                       kube::ModelKube::access());
                 }),
          adapter(store, access),
          deps{.timer = worker.timer,
               .random = worker.random,
               .store = store,
               .adapter = adapter,
               .changed = access.changes()} {}
  };

  // Publishes a certificate, another one each time.
  void offerCertificate() {
    auto number = machined.kind<rpc::KubeletClientSpec>().versionOf("kubelet") + 1;
    auto kubeconfig =
        kube::writeKubeconfig({.cluster = "local",
                               .server = "https://127.0.0.1:6443",
                               .authority = "CA",
                               .user = "kubelet",
                               .credentials = kube::ClientPair{"CERT", kj::str("KEY", number)},
                               .context = "local"});
    machined.kind<rpc::KubeletClientSpec>().set<rpc::KubeletClientSpec>(
        "kubelet", "machined", [&](auto spec) { spec.setKubeconfig(kj::StringPtr(kubeconfig)); });
  }
  bool eventually(kj::Function<bool()> so) {
    auto deadline = timer.now() + 20 * kj::SECONDS;
    while (!so() && timer.now() < deadline) {
      timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return so();
  }
};

}  // namespace talos::kubed
