// runtime.CertificateStatusController: publishes the subject and the validity of each certificate
// that the store has for this node, its CAs among them, as CertificateStatuses. Certificates that
// are only in files of other programs are left out: the kubelet rotates its own.
#include "common/base/date.h"
#include "common/base/error.h"
#include "common/tls/pki.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/metrics-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {
namespace {

class CertificateStatusController final : public Controller {
 public:
  kj::StringPtr name() const override { return "runtime.CertificateStatusController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::ApiCertificateSpec>(), input<rpc::RootSecretSpec>(),
                   input<rpc::EtcdSecretsSpec>(), input<rpc::KubernetesSecretsSpec>());
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::CertificateStatusSpec>();
  }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::CertificateStatusSpec> outputs(name());
    for (auto spec : store.list<rpc::ApiCertificateSpec>()) {
      if (spec.getMaintenance()) continue;  // a temporary certificate
      add(outputs, "api-ca", spec.getCa());
      add(outputs, "api-server", spec.getServer().getCrt());
      add(outputs, "api-client", spec.getClient().getCrt());
    }
    for (auto spec : store.list<rpc::RootSecretSpec>()) {
      if (spec.isEtcd()) add(outputs, "etcd-ca", spec.getEtcd().getEtcdCA().getCrt());
      if (spec.isK8s()) {
        add(outputs, "kubernetes-ca", spec.getK8s().getCa().getCrt());
        add(outputs, "kubernetes-aggregator-ca", spec.getK8s().getAggregatorCA().getCrt());
      }
    }
    for (auto spec : store.list<rpc::EtcdSecretsSpec>()) {
      add(outputs, "etcd-peer", spec.getEtcdPeer().getCrt());
      add(outputs, "etcd-server", spec.getServer().getCrt());
      add(outputs, "etcd-client", spec.getClient().getCrt());
    }
    for (auto spec : store.list<rpc::KubernetesSecretsSpec>()) {
      add(outputs, "kube-apiserver", spec.getApiServer().getCrt());
      add(outputs, "kube-apiserver-kubelet-client", spec.getApiServerKubeletClient().getCrt());
      add(outputs, "kube-aggregator-client", spec.getFrontProxy().getCrt());
    }
    outputs.apply(store);
    return kj::READY_NOW;
  }

 private:
  static void add(Outputs<rpc::CertificateStatusSpec>& outputs, kj::StringPtr id,
                  capnp::Data::Reader pem) {
    if (pem.size() == 0) return;
    auto spec = outputs.add(id);
    auto unreadable = kj::runCatchingExceptions([&] {
      auto info = pki::inspect(kj::heapString(pem.asChars()));
      spec.setSubject(info.commonName.size() > 0 || info.organizations.empty()
                          ? kj::StringPtr(info.commonName)
                          : kj::StringPtr(info.organizations[0]));
      spec.setAuthority(info.authority);
      spec.setNotBefore(dateText(info.notBefore));
      spec.setNotAfter(dateText(info.notAfter));
    });
    KJ_IF_MAYBE (e, unreadable) spec.setProblem(messageOf(*e));
  }
};

}  // namespace

kj::Own<Controller> certificateStatusController(ControllerDependencies&) {
  return kj::heap<CertificateStatusController>();
}

}  // namespace talos::machined
