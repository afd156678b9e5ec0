// A control-plane node whose controllers make Kubernetes' secrets, the files of its components and
// their pods, for tests.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/config/config-generate.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/config/trust/root-secrets-controller.h"
#include "machined/kubernetes/control-plane-config.h"
#include "machined/kubernetes/control-plane-pods.h"
#include "machined/kubernetes/etcd/etcd-secrets.h"
#include "machined/kubernetes/kubernetes-secrets.h"

namespace talos::machined {

using Secrets = rpc::KubernetesSecretsSpec;

struct KubernetesControllers : public ConfigTest {
  char folder[40] = "/tmp/kubernetes-secrets-XXXXXX";
  KeptVersions kept{{[](kj::Function<void()> work) { return kj::evalLater(kj::mv(work)); },
                     [] { return false; }}};
  config::Secrets secrets;
  kj::String keptFile;
  pki::CertificateAndKey etcdAuthority =
      pki::makeAuthority({.organization = "etcd", .keyType = pki::KeyType::kEcdsaP256});

  KubernetesControllers() {
    KJ_ASSERT(mkdtemp(folder) != nullptr);
    keptFile = kj::str(folder, ".kept");
    clock.time = kj::systemPreciseCalendarClock().now();
    secrets = config::makeSecrets({});
  }
  ~KubernetesControllers() noexcept override {
    removeTree(folder);
    removeTree(keptFile);
  }

  kj::String document(kj::StringPtr host = "10.5.0.9") {
    return config::generate(secrets, "demo", kj::str("https://", host, ":6443"), {}).controlplane;
  }
  kj::Duration lifetime = kKubernetesLifetime;
  void begin() {
    runtime.add(kj::heap<RootController>(
        KJ_BIND_METHOD(config, tryConfig),
        ControlPlaneNodes::Dependencies{.uv = uv, .isMounted = [] { return false; }}));
    runtime.add(kj::heap<KubernetesController>(
        KubernetesController::Dependencies{.uv = uv,
                                           .timer = timer,
                                           .clock = clock,
                                           .readConfig = KJ_BIND_METHOD(config, tryConfig),
                                           .isMounted = [] { return true; },
                                           .file = keptFile,
                                           .lifetime = lifetime}));
    runtime.add(kj::heap<ControlPlaneConfigController>(ControlPlaneConfigController::Dependencies{
        .readConfig = KJ_BIND_METHOD(config, tryConfig), .kept = kept, .warn = [](kj::StringPtr) {
        }}));
    runtime.add(kj::heap<RenderSecretsController>(RenderSecretsController::Dependencies{
        .blocking = [](kj::Function<void()> work) { return kj::evalLater(kj::mv(work)); },
        .kept = kept,
        .folder = folder,
        .ownerOf = [](Component) { return static_cast<unsigned>(getuid()); }}));
    runtime.add(kj::heap<StaticPodController>(KJ_BIND_METHOD(config, tryConfig)));
    put<rpc::HostnameSpecSpec>("hostname", [](auto spec) { spec.setHostname("master-1"); });
    putAddresses({"10.5.0.2"});
    putEtcd();
    publish(document());
    settle();
  }
  void putAddresses(std::initializer_list<kj::StringPtr> list) {
    for (auto id : {"default"_kj, "current"_kj, "accumulative"_kj}) {
      put<rpc::NodeAddressSpec>(id, [&](auto spec) {
        auto addresses = spec.initAddresses(static_cast<unsigned>(list.size()));
        for (auto i : kj::indices(list)) addresses.set(i, list.begin()[i]);
      });
    }
  }
  void putEtcd() {
    auto pair = pki::issue(etcdAuthority.certificate, etcdAuthority.key, {.commonName = "a"});
    putRecord<rpc::EtcdSecretsSpec>(store, kEtcdClientId, [&](auto spec) {
      spec.setCa(etcdAuthority.certificate.asBytes());
      spec.initClient().setCrt(pair.certificate.asBytes());
      spec.getClient().setKey(pair.key.bytes());
    });
  }
  void settle() {
    auto& real = io.provider->getTimer();
    real.timeoutAfter(2 * kj::MINUTES, runtime.whenIdle()).wait(io.waitScope);
  }
  // Publishes the document with these lines at the beginning of `cluster`.
  void publishWith(std::initializer_list<kj::StringPtr> lines) {
    auto config = document();
    kj::StringPtr mark = "\ncluster:\n"_kj;
    auto at = strstr(config.cStr(), mark.cStr());
    KJ_ASSERT(at != nullptr);
    auto head = static_cast<size_t>(at - config.cStr()) + mark.size();
    auto rest = config.slice(head);
    auto indent = rest.slice(0, strspn(rest.cStr(), " "));
    auto indented = KJ_MAP(line, lines) {
      return kj::str(indent, line, "\n");
    };
    publish(kj::str(config.slice(0, head), kj::strArray(indented, ""), rest));
    settle();
  }
  void renew() {
    runtime.poke("secrets.KubernetesController");
    settle();
  }
  ResourceOf<Secrets> stored() {
    return KJ_ASSERT_NONNULL(store.tryGet<Secrets>(kKubernetesSecretsId), log);
  }
  static pki::CertificateInfo inspect(rpc::KeyPair::Reader pair) {
    pki::checkPair(kj::str(pair.getCrt().asChars()), kj::str(pair.getKey().asChars()));
    return pki::inspect(kj::str(pair.getCrt().asChars()));
  }
  static kj::String crt(rpc::KeyPair::Reader pair) { return kj::str(pair.getCrt().asChars()); }
  std::string version(kj::StringPtr id) {
    return KJ_ASSERT_NONNULL(store.tryGet<rpc::SecretStatusSpec>(id), log).getVersion().cStr();
  }
  // Returns the versions of static-pods, kube-apiserver, kube-controller-manager, kube-scheduler.
  std::string versions() {
    std::string text;
    for (auto id :
         {kStaticPodsId, "kube-apiserver"_kj, "kube-controller-manager"_kj, "kube-scheduler"_kj}) {
      text += version(id) + " ";
    }
    return text;
  }
};

}  // namespace talos::machined
