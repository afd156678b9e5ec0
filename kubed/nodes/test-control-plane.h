// kubed of a control plane between models of machined and of the API server, which it reaches by
// the administrator's kubeconfig; for tests.
#pragma once

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "common/kube/kubeconfig.h"
#include "common/kube/node-proof.h"
#include "common/kube/test-kube-server.h"
#include "kubed/nodes/watch-reconciler.h"
#include "tests/models/test-machined.h"

namespace talos::kubed {

// Returns a request for the node `asked`, by a machine to which trustd has given a certificate for
// `shown`.
inline kube::Json kubeletRequest(const pki::CertificateAndKey& machineCa, kj::StringPtr name,
                                 kj::StringPtr asked, kj::StringPtr shown, kj::StringPtr address) {
  auto machine =
      pki::issue(machineCa.certificate, machineCa.key,
                 {.dnsNames = kj::arr(kj::str(shown)), .addresses = kj::arr(kj::str(address))});
  auto user = kj::str(kube::kNodeUser, asked);
  auto request =
      pki::makeRequest(pki::makeKey(pki::KeyType::kEcdsaP256),
                       {.commonName = user, .organizations = kj::arr(kj::str(kube::kNodeGroup))});
  auto signature = kj::encodeBase64(kube::signRequestAsNode(machine.key, request));
  return {{"metadata",
           {{"name", name.cStr()},
            {"annotations",
             {{kube::kNodeCertificateAnnotation.cStr(), machine.certificate.cStr()},
              {kube::kNodeSignatureAnnotation.cStr(), signature.cStr()}}}}},
          {"spec",
           {{"request", kj::encodeBase64(request.asBytes()).cStr()},
            {"signerName", "kubernetes.io/kube-apiserver-client-kubelet"},
            {"username", "system:bootstrap:abcdef"},
            {"groups", {"system:bootstrappers", "system:authenticated"}},
            {"usages", {"key encipherment", "digital signature", "client auth"}}}}};
}

// Returns the request of this node's kubelet for its serving certificate, with this PKCS#10 text.
inline kube::Json servingRequest(kj::StringPtr name, kj::StringPtr node, kj::StringPtr text) {
  return {{"metadata", {{"name", name.cStr()}, {"creationTimestamp", "2026-11-20T12:00:00Z"}}},
          {"spec",
           {{"request", kj::encodeBase64(text.asBytes()).cStr()},
            {"signerName", "kubernetes.io/kubelet-serving"},
            {"username", kj::str(kube::kNodeUser, node).cStr()},
            {"groups", {"system:nodes", "system:authenticated"}},
            {"usages", {"digital signature", "key encipherment", "server auth"}}}}};
}
inline kj::String servingText(kj::StringPtr node, kj::Array<kj::String> dnsNames,
                              kj::Array<kj::String> addresses) {
  auto user = kj::str(kube::kNodeUser, node);
  return pki::makeRequest(pki::makeKey(pki::KeyType::kEcdsaP256),
                          {.commonName = user,
                           .organizations = kj::arr(kj::str(kube::kNodeGroup)),
                           .dnsNames = kj::mv(dnsNames),
                           .addresses = kj::mv(addresses)});
}

struct TestControlPlane : public testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ModelMachined machined{io, kKubedUid};
  kube::ModelKube model{timer};
  StoreClient store{*io.lowLevelProvider, timer, machined.socket(), kj::str(kOwner)};
  Signal changed;
  TlsEndpoint etcd;
  kj::Function<double()> random = [] { return 0.0; };
  kj::Maybe<KubernetesStoreAdapter> adapter;

  ~TestControlPlane() noexcept override {}
  TestControlPlane() {
    model.addUsualKinds();
    auto admin = kube::writeKubeconfig({.cluster = "c",
                                        .server = "https://127.0.0.1:6443",
                                        .authority = "CA",
                                        .user = "u",
                                        .credentials = kube::ClientPair{"CERT", "KEY"},
                                        .context = "c"});
    machined.kind<rpc::KubernetesSecretsSpec>().set<rpc::KubernetesSecretsSpec>(
        "k8s-certs", "machined", [&](auto spec) { spec.setAdminKubeconfig(kj::StringPtr(admin)); });
  }

  // Starts machined with the resources set until now.
  KubedDependencies begin() {
    machined.start();
    auto make = [this](kube::KubeAccess) {
      return kj::heap<kube::KubeClient>(
          timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access());
    };
    auto& reader = adapter.emplace(store, etcd, kj::mv(make), changed);
    return {
        .timer = timer, .random = random, .store = store, .adapter = reader, .changed = changed};
  }
  bool eventually(kj::FunctionParam<bool()> holds) {
    auto deadline = timer.now() + 20 * kj::SECONDS;
    while (!holds() && timer.now() < deadline) {
      timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return holds();
  }
};

}  // namespace talos::kubed
