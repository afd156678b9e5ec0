#include "kubed/accounts/pod-access.h"

#include <gtest/gtest.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/etcd/test-etcd.h"
#include "common/kube/kubeconfig.h"
#include "common/kube/test-kube-server.h"
#include "tests/models/test-machined.h"

namespace talos::kubed {
namespace {

using kube::Json;

const std::string kAccountPath = "/apis/talos.dev/v1alpha1/namespaces/apps/serviceaccounts/sa";
const std::string kSecretPath = "/api/v1/namespaces/apps/secrets/sa";
const std::string kEndpointsPath = "/api/v1/namespaces/default/endpoints/talos";

// A control-plane node between models of machined, Kubernetes and etcd. The test advances `timer`,
// and plays the part of machined's controller.
struct PodAccesses : public testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& real = io.provider->getTimer();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelMachined machined{io, kKubedUid};
  kube::ModelKube model{real};
  etcd::ModelCluster cluster{real};
  etcd::ModelEtcd etcd{cluster};
  kj::Function<double()> random = [] { return 0.0; };
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  kj::String refusal = kj::str();  // of machined
  uint64_t answered = 0;

  ~PodAccesses() noexcept override {}
  PodAccesses() {
    model.addUsualKinds();
    model.addKind(podAccounts());
    model.addKind(kube::coreResource("events", "Event"));
    model.addKind(kube::coreResource("endpoints", "Endpoints"));
    // Server-side apply, which the model does not have, creates an object that does not exist.
    model.instead = [this](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
      if (asked.method == "PATCH" && asked.path.starts_with(kEndpointsPath)) {
        model.put(kEndpointsPath.c_str(), asked.body);
        return kube::ModelKube::Reply{200, asked.body.dump(), ""};
      }
      return nullptr;
    };
    auto kubeconfig = kube::writeKubeconfig({.cluster = "c1",
                                             .server = "https://127.0.0.1:6443",
                                             .authority = "CA",
                                             .user = "u",
                                             .credentials = kube::ClientPair{"CERT", "KEY"},
                                             .context = "c"});
    machined.kind<rpc::KubernetesSecretsSpec>().set<rpc::KubernetesSecretsSpec>(
        "k8s-certs", "machined",
        [&](auto spec) { spec.setAdminKubeconfig(kj::StringPtr(kubeconfig)); });
    machined.kind<rpc::KubeletSecretsSpec>().set<rpc::KubeletSecretsSpec>(
        "kubelet", "machined",
        [&](auto spec) { spec.setMachineCa(authority.certificate.asBytes()); });
    auto etcdAuthority = pki::makeAuthority({.organization = "etcd"});
    machined.kind<rpc::EtcdSecretsSpec>().set<rpc::EtcdSecretsSpec>(
        "client", "machined", [&](auto spec) {
          spec.setCa(etcdAuthority.certificate.asBytes());
          auto pair = pki::issue(etcdAuthority.certificate, etcdAuthority.key, {});
          spec.getClient().setCrt(pair.certificate.asBytes());
          spec.getClient().setKey(pair.key.bytes());
        });
    machined.kind<rpc::BootstrapStatusSpec>().set<rpc::BootstrapStatusSpec>(
        "control-plane", "machined", [](auto) {});
    machined.kind<rpc::HostnameSpecSpec>().set<rpc::HostnameSpecSpec>(
        "hostname", "machined", [](auto spec) { spec.setHostname("m1"); });
    machined.kind<rpc::ApiEndpointsSpec>().set<rpc::ApiEndpointsSpec>(
        "kube-apiserver", kOwner, [](auto spec) { spec.initAddresses(1).set(0, "10.0.0.2"); });
    machined.start();
  }

  void allow(bool enabled, std::initializer_list<kj::StringPtr> roles) {
    machined.kind<rpc::KubernetesAccessConfigSpec>().set<rpc::KubernetesAccessConfigSpec>(
        "config", "machined", [&](auto spec) {
          spec.setEnabled(enabled);
          auto list = spec.initAllowedApiRoles(roles.size());
          unsigned i = 0;
          for (auto role : roles) list.set(i++, role);
          spec.initAllowedKubernetesNamespaces(1).set(0, "apps");
        });
  }
  void putAccount(Json roles, const std::string& path = kAccountPath) {
    auto parts = path.substr(0, path.rfind('/'));
    parts = parts.substr(0, parts.rfind('/'));
    model.put(path.c_str(), {{"apiVersion", "talos.dev/v1alpha1"},
                             {"kind", "ServiceAccount"},
                             {"metadata",
                              {{"name", path.substr(path.rfind('/') + 1)},
                               {"namespace", parts.substr(parts.rfind('/') + 1)},
                               {"uid", "u-1"}}},
                             {"spec", {{"roles", std::move(roles)}}}});
  }
  // Answers a request of kubed as machined does, as long as there is one.
  void answer() {
    KJ_IF_MAYBE (held, machined.kind<rpc::PodCertificateRequestSpec>().find("account")) {
      ResourceOf<rpc::PodCertificateRequestSpec> request(*held);
      if (request.getNumber() == answered) return;
      machined.kind<rpc::PodCertificateSpec>().set<rpc::PodCertificateSpec>(
          "account", "machined", [&](auto spec) {
            spec.setNumber(request.getNumber());
            spec.setError(refusal);
            if (refusal.size() > 0) return;
            auto roles = textsOf(request.getRoles());
            auto asked = pki::inspectRequest(kj::str(request.getRequest()));
            auto certificate =
                pki::signRequest(authority.certificate, authority.key, request.getRequest(),
                                 {.commonName = asked.commonName,
                                  .organizations = kj::mv(roles),
                                  .server = false,
                                  .lifetime = 6 * kj::HOURS});
            spec.setCa(authority.certificate.asBytes());
            spec.setCertificate(certificate.asBytes());
          });
      answered = request.getNumber();
    } else if (machined.kind<rpc::PodCertificateSpec>().size() > 0) {
      machined.kind<rpc::PodCertificateSpec>().destroy("account");
    }
  }
  bool eventually(kj::Function<bool()> so) {
    auto deadline = real.now() + 20 * kj::SECONDS;
    while (!so() && real.now() < deadline) {
      answer();
      real.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return so();
  }
  // Returns the status of the account.
  std::string failure(const std::string& path = kAccountPath) {
    KJ_IF_MAYBE (found, model.find(path.c_str())) {
      return kube::textAt(*found, {"status", "failureReason"}).cStr();
    }
    return "there is no account";
  }
  unsigned events(const std::string& reason) {
    unsigned count = 0;
    for (auto& asked : model.asked) {
      bool created = asked.method == "POST" && asked.path.find("/events") != std::string::npos;
      if (created && kube::textAt(asked.body, {"reason"}) == reason.c_str()) ++count;
    }
    return count;
  }
  std::string secretText() {
    KJ_IF_MAYBE (found, model.find(kSecretPath.c_str())) return found->at("data").dump();
    return "";
  }

  struct Kubed {
    StoreClient store;
    Signal changed;
    TlsEndpoint tls;
    KubernetesStoreAdapter adapter;
    KubedDependencies deps;
    AccessStoreAdapter access;
    PodAccess pods;
    kj::Promise<void> running;

    explicit Kubed(PodAccesses& test)
        : store(*test.io.lowLevelProvider, test.real, test.machined.socket(), kj::str(kOwner)),
          adapter(
              store, tls,
              [&test](kube::KubeAccess) {
                return kj::heap<kube::KubeClient>(
                    test.real, [] { return 0.0; }, test.model.dialer(), kube::ModelKube::access());
              },
              changed),
          deps{.timer = test.timer,
               .random = test.random,
               .store = store,
               .adapter = adapter,
               .changed = changed},
          access(test.timer, store, changed),
          pods(deps, access, test.etcd),
          running(pods.run().eagerlyEvaluate(nullptr)) {}
  };
};

// Catches: an account that gets no Secret; a Secret that is written with each check; a changed
// Secret that is not restored; endpoints with wrong addresses.
TEST_F(PodAccesses, AnAccountIsGivenASecretThatIsKeptRight) {
  allow(true, {"os:reader"});
  putAccount({"os:reader"});
  Kubed kubed(*this);
  ASSERT_TRUE(eventually([&] { return events("Synced") == 1; }));
  auto first = secretText();
  EXPECT_NE(first, "");
  ASSERT_TRUE(eventually([&] { return model.find(kEndpointsPath.c_str()) != nullptr; }));
  auto endpoints = KJ_ASSERT_NONNULL(model.find(kEndpointsPath.c_str()));
  EXPECT_EQ(endpoints["subsets"].dump(),
            R"([{"addresses":[{"ip":"10.0.0.2"}],"ports":[{"name":"apid","port":50000,)"
            R"("protocol":"TCP"}]}])");
  EXPECT_TRUE(
      eventually([&] { return machined.kind<rpc::PodCertificateRequestSpec>().size() == 0; }));

  auto looks = [&] {
    unsigned count = 0;
    for (auto& asked : model.asked) {
      if (asked.method == "GET" && asked.path == kSecretPath) ++count;
    }
    return count;
  };
  auto before = looks();
  timer.advanceTo(timer.now() + kAccountsAgain);
  ASSERT_TRUE(eventually([&] { return looks() > before; }));
  EXPECT_EQ(secretText(), first);
  EXPECT_EQ(events("Synced"), 1u);

  auto changed = Json(KJ_ASSERT_NONNULL(model.find(kSecretPath.c_str())));
  changed["data"]["config"] = "e30=";
  model.put(kSecretPath.c_str(), changed);
  EXPECT_TRUE(eventually([&] {
    timer.advanceTo(timer.now() + 1 * kj::SECONDS);
    return events("Synced") == 2;
  }));
  EXPECT_NE(secretText(), changed["data"].dump());
}

// Catches: roles or namespaces that the config does not allow, in kubed or in machined; an error
// that the account does not say, or keeps; a Secret that is taken away by it.
TEST_F(PodAccesses, WhatIsNotAllowedIsRefusedWithTheReason) {
  allow(true, {"os:reader"});
  auto elsewhere = std::string("/apis/talos.dev/v1alpha1/namespaces/other/serviceaccounts/sa");
  putAccount({"os:admin"});
  putAccount({"os:reader"}, elsewhere);
  Kubed kubed(*this);
  ASSERT_TRUE(eventually([&] { return events("ErrRolesNotAllowed") == 1; }));
  EXPECT_TRUE(eventually([&] { return failure().find("os:admin") != std::string::npos; }))
      << failure();
  ASSERT_TRUE(eventually([&] { return failure(elsewhere).find("other") != std::string::npos; }))
      << failure(elsewhere);
  EXPECT_EQ(events("ErrNamespaceNotAllowed"), 1u);
  EXPECT_TRUE(model.find(kSecretPath.c_str()) == nullptr);
  EXPECT_TRUE(model.find("/api/v1/namespaces/other/secrets/sa") == nullptr);

  allow(true, {"os:reader", "os:admin"});
  ASSERT_TRUE(eventually([&] { return secretText() != ""; }));
  EXPECT_TRUE(eventually([&] { return failure() == ""; })) << failure();
  auto given = secretText();
  EXPECT_EQ(events("ErrNamespaceNotAllowed"), 1u);

  allow(true, {"os:reader"});
  ASSERT_TRUE(eventually([&] { return events("ErrRolesNotAllowed") == 2; }));
  EXPECT_EQ(secretText(), given);
}

// Catches: a kubed that creates a Secret that machined refuses to sign, or that is blocked by the
// refusal.
TEST_F(PodAccesses, MachinedHasTheLastWord) {
  allow(true, {"os:reader"});
  refusal = kj::str("pods are not allowed to have the role os:reader");
  putAccount({"os:reader"});
  Kubed kubed(*this);
  ASSERT_TRUE(eventually([&] { return answered != 0; }));
  EXPECT_TRUE(
      eventually([&] { return machined.kind<rpc::PodCertificateRequestSpec>().size() == 0; }));
  EXPECT_EQ(secretText(), "");
  refusal = kj::str();
  EXPECT_TRUE(eventually([&] {
    timer.advanceTo(timer.now() + 1 * kj::SECONDS);  // to the next try
    return secretText() != "";
  }));
}

// Catches: access on a node whose config does not enable it; access that continues when it is
// disabled.
TEST_F(PodAccesses, IsOffWithoutTheConfig) {
  putAccount({"os:reader"});
  allow(false, {"os:reader"});
  Kubed kubed(*this);
  ASSERT_TRUE(eventually([&] { return kubed.adapter.obstacle() == nullptr; }));
  real.afterDelay(20 * kj::MILLISECONDS).wait(io.waitScope);
  EXPECT_EQ(model.asked.size(), 0u);
  allow(true, {"os:reader"});
  ASSERT_TRUE(eventually([&] { return secretText() != ""; }));
  allow(false, {"os:reader"});
  ASSERT_TRUE(eventually([&] { return kubed.access.policy() == nullptr; }));
  real.afterDelay(20 * kj::MILLISECONDS).wait(io.waitScope);
  model.drop(kSecretPath.c_str());
  auto asked = model.asked.size();
  timer.advanceTo(timer.now() + 2 * kAccountsAgain);
  real.afterDelay(20 * kj::MILLISECONDS).wait(io.waitScope);
  EXPECT_EQ(model.asked.size(), asked);
}

}  // namespace
}  // namespace talos::kubed
