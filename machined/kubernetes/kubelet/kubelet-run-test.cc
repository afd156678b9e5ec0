#include "machined/kubernetes/kubelet/kubelet-run.h"

#include <gmock/gmock.h>
#include <kj/encoding.h>

#include "common/base/file.h"
#include "common/kube/node-proof.h"
#include "common/kube/node-roles.h"
#include "common/testing/test-tree.h"
#include "machined/kubernetes/kubernetes-secrets.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "machined/services/test-supervisor.h"

namespace talos::machined {
namespace {

using testing::Contains;

struct KubeletService : public SupervisorTest {
  ~KubeletService() noexcept override {}
  TestTree tree;
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  kj::String digest = tree.at("digest");
  kj::Maybe<KubeletRun> kubelet;
  static constexpr auto kLifetime = 6 * kj::HOURS;
  static constexpr kj::StringPtr kNowhere = "nowhere"_kj;  // its pull never ends
  unsigned prepared = 0;
  pki::CertificateAndKey authority = pki::makeAuthority({.keyType = pki::KeyType::kEcdsaP256});
  pki::CertificateAndKey machineCa =
      pki::makeAuthority({.organization = "talos", .notBefore = clock.now()});
  kube::Json object;   // of the last checked request, as kubed makes it
  kj::String request;  // in `object`

  KubeletService() { begin(); }
  void begin() {
    auto& run = kubelet.emplace(KubeletRun::Dependencies{.timer = timer,
                                                         .clock = clock,
                                                         .blocking =
                                                             [](kj::Function<void()> work) {
                                                               return kj::evalNow(
                                                                   [&]() -> kj::Promise<void> {
                                                                     work();
                                                                     return kj::READY_NOW;
                                                                   });
                                                             },
                                                         .store = store,
                                                         .supervisor = *supervisor,
                                                         .lifetime = kLifetime,
                                                         .root = tree.root,
                                                         .startedWith = digest});
    auto d = define("kubelet");
    d.prepare = [this, &run](kj::Function<void(kj::StringPtr)> note) {
      return run.prepare(kj::mv(note)).then([this, &run]() -> kj::Promise<void> {
        ++prepared;
        if (run.container().image == kNowhere) return kj::NEVER_DONE;
        return kj::READY_NOW;
      });
    };
    d.prepareLast = [&run](kj::Function<void(kj::StringPtr)> note) {
      return run.awaitCertificate(kj::mv(note));
    };
    supervisor->load(kj::mv(d));
    run.follow();
  }
  // A node that has joined.
  void join() {
    auto pair = pki::issue(authority.certificate, authority.key,
                           {.lifetime = 365 * kj::DAYS, .notBefore = clock.now()});
    tree.directory("etc/kubernetes");
    tree.file("etc/kubernetes/kubeconfig-kubelet", "");
    tree.directory("var/lib/kubelet/pki");
    tree.file("var/lib/kubelet/pki/kubelet-client-current.pem", pair.certificate);
  }
  kj::Maybe<uint64_t> joinRequest() {
    return store.tryGet<rpc::KubeletJoinSpec>(kKubeletId).map([this](auto found) {
      request = kj::str(found.getRequest());
      object = {
          {"metadata",
           {{"annotations",
             {{kube::kNodeCertificateAnnotation.cStr(), found.getNodeCertificate().cStr()},
              {kube::kNodeSignatureAnnotation.cStr(),
               kj::encodeBase64(found.getNodeSignature()).cStr()}}}}},
          {"spec",
           {{"request", kj::encodeBase64(request.asBytes()).cStr()}, {"usages", {"client auth"}}}}};
      return found.getNumber();
    });
  }
  void wants(kj::StringPtr image) {
    putRecord<rpc::KubeletSecretsSpec>(
        store, kKubeletId, [&](auto spec) { spec.setCa(authority.certificate.asBytes()); }, "test");
    putRecord<rpc::KubeletSpecSpec>(
        store, kKubeletId,
        [&](auto spec) {
          spec.setImage(image);
          spec.setNodename("w-1");
          spec.initArguments(1).set(0, "--kubeconfig=/etc/kubernetes/kubeconfig-kubelet");
        },
        "test");
    advance(10 * kj::SECONDS);
  }
  // Returns the certificate for the last checked request.
  kj::String signature() {
    return pki::signRequest(
        authority.certificate, authority.key, request,
        {.commonName = "system:node:w-1", .server = false, .notBefore = clock.now()});
  }
  // Sets the node's certificate of trustd, for this name.
  void apiIs(kj::StringPtr name) {
    auto pair = pki::issue(machineCa.certificate, machineCa.key,
                           {.dnsNames = kj::arr(kj::str(name)), .notBefore = clock.now()});
    putRecord<rpc::ApiCertificateSpec>(
        store, "api",
        [&](auto spec) {
          spec.initServer().setCrt(pair.certificate.asBytes());
          spec.getServer().setKey(pair.key.bytes());
        },
        "apid");
    advance(1 * kj::SECONDS);
  }
  void kubedSays(uint64_t number, kj::StringPtr why, kj::StringPtr certificate = "") {
    putRecord<rpc::KubeletJoinStatusSpec>(
        store, kKubeletId,
        [&](auto spec) {
          spec.setNumber(number);
          spec.setMessage(why);
          spec.setCertificate(certificate);
        },
        "kubed");
    advance(1 * kj::SECONDS);
  }
};

// Catches: a kubelet that runs before its settings exist; a kubelet that is restarted without a
// change, also by a restarted brain, or that is not restarted after a change.
TEST_F(KubeletService, RunsAsTheSpecWants) {
  join();
  supervisor->start("kubelet");
  advance(1 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("kubelet"));
  EXPECT_THAT(events, Contains("kubelet Preparing Waiting for the name and the addresses of the "
                               "node"));
  wants("one");
  ASSERT_TRUE(machine.runs("kubelet"));
  EXPECT_EQ("one", KJ_ASSERT_NONNULL(kubelet).container().image);
  auto pid = machine.child("kubelet").pid;
  wants("one");
  EXPECT_EQ(pid, machine.child("kubelet").pid);
  kubelet = nullptr;
  crashBrain();
  begin();
  advance(10 * kj::SECONDS);
  EXPECT_EQ(pid, machine.child("kubelet").pid);
  wants("two");
  ASSERT_TRUE(machine.runs("kubelet"));
  EXPECT_NE(pid, machine.child("kubelet").pid);
  EXPECT_EQ("two", KJ_ASSERT_NONNULL(kubelet).container().image);
}

// Catches: a kubelet that counts as running with settings with which it was not started.
TEST_F(KubeletService, SaysIfItRunsWithTheWantedSettings) {
  join();
  supervisor->start("kubelet");
  EXPECT_TRUE(KJ_ASSERT_NONNULL(kubelet).effect().notYet == nullptr);
  wants("one");
  advance(5 * kj::SECONDS);
  auto effect = KJ_ASSERT_NONNULL(kubelet).effect();
  EXPECT_TRUE(effect.notYet == nullptr);
  EXPECT_GE(KJ_ASSERT_NONNULL(effect.runsFor), 5 * kj::SECONDS);
  putRecord<rpc::KubeletSpecSpec>(
      store, kKubeletId, [&](auto spec) { spec.setImage("two"); }, "test");
  EXPECT_TRUE(KJ_ASSERT_NONNULL(kubelet).effect().notYet != nullptr);
  wants("two");
  effect = KJ_ASSERT_NONNULL(kubelet).effect();
  EXPECT_TRUE(effect.notYet == nullptr);
  EXPECT_LT(KJ_ASSERT_NONNULL(effect.runsFor), 11 * kj::SECONDS);
}

// Catches: a node whose object was deleted by mistake, and that never comes back; a kubelet that is
// restarted while it registers its node, or again and again; a problem that is not shown.
TEST_F(KubeletService, ADeletedNodeIsRegisteredAgain) {
  auto kubedReports = [&](kj::StringPtr message, uint64_t compared = 0) {
    putRecord<rpc::NodeStatusSpec>(
        store, "node",
        [&](auto spec) {
          spec.setApplied(message.size() == 0);
          spec.setMessage(message);
          spec.setSpecVersion(compared);
        },
        "kubed");
  };
  auto problem = [&] {
    auto text = KJ_ASSERT_NONNULL(kubelet).problem().orDefault(kj::String());
    return std::string(text.cStr());
  };
  auto gone = kj::str("nodes \"w-1\"", kube::kNoNodeObject, " yet");
  join();
  supervisor->start("kubelet");
  wants("one");
  auto pid = machine.child("kubelet").pid;
  kubedReports("Kubernetes at 10.5.0.1:6443: connection refused");
  advance(10 * kj::MINUTES);
  EXPECT_EQ(pid, machine.child("kubelet").pid) << "nothing is known about the node";
  EXPECT_EQ("", problem());
  kubedReports(gone);
  advance(10 * kj::SECONDS);
  kubedReports("", 1);
  advance(10 * kj::MINUTES);
  EXPECT_EQ(pid, machine.child("kubelet").pid) << "it has registered the node";

  kubedReports(gone);
  advance(kUntilRejoin - 1 * kj::SECONDS);
  EXPECT_EQ(pid, machine.child("kubelet").pid);
  EXPECT_THAT(problem(), testing::HasSubstr("its kubelet is restarted within a minute"));
  advance(5 * kj::SECONDS);
  auto second = machine.child("kubelet").pid;
  EXPECT_NE(pid, second);
  EXPECT_EQ("", problem()) << "it may be registering";
  advance(30 * kj::MINUTES);
  EXPECT_EQ(second, machine.child("kubelet").pid) << "it is restarted once";
  EXPECT_EQ(problem(),
            "Kubernetes has no Node object of this node; the restart of its kubelet has not "
            "changed that: talosctl service kubelet restart");
  kubedReports("stored, but not in effect: machine.nodeLabels: x", 2);
  advance(1 * kj::SECONDS);
  EXPECT_EQ("", problem());
  kubedReports(gone);
  advance(kUntilRejoin + 5 * kj::SECONDS);
  EXPECT_NE(second, machine.child("kubelet").pid) << "it was deleted once more";
}

// Catches: a kubelet that waits for a wrong image after it was corrected; a kubelet that is
// restarted again and again.
TEST_F(KubeletService, WaitsForTheImageThatIsWantedNow) {
  join();
  supervisor->start("kubelet");
  wants(kNowhere);
  advance(60 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("kubelet"));
  EXPECT_EQ(1u, prepared);
  wants("one");
  ASSERT_TRUE(machine.runs("kubelet"));
  EXPECT_EQ("one", KJ_ASSERT_NONNULL(kubelet).container().image);
  EXPECT_EQ(2u, prepared);
}

// Catches: a kubelet that the API server does not authenticate and that retries with ever longer
// pauses; a kubelet that does not say what it waits for, or accepts the answer to another request;
// a request that stays when no start waits for it.
TEST_F(KubeletService, IsStartedWithItsCertificate) {
  apiIs("w-1");
  supervisor->start("kubelet");
  wants("one");
  EXPECT_EQ(1u, prepared) << "its image is not waited for first";
  EXPECT_FALSE(machine.runs("kubelet"));
  EXPECT_THAT(events, Contains("kubelet Preparing Waiting for kubed"));
  auto number = KJ_ASSERT_NONNULL(joinRequest());
  auto signed_ = signature();
  kubedSays(number + 1, "", signed_);
  EXPECT_FALSE(machine.runs("kubelet"));
  kubedSays(number, "Kubernetes at lb:6443: connection refused");
  advance(10 * kj::MINUTES);
  EXPECT_FALSE(machine.runs("kubelet"));
  EXPECT_THAT(events, Contains("kubelet Preparing Waiting for its certificate: Kubernetes at "
                               "lb:6443: connection refused"));
  kubedSays(number, "", signed_);
  EXPECT_TRUE(machine.runs("kubelet"));
  EXPECT_TRUE(joinRequest() == nullptr);
  EXPECT_TRUE(tryReadFile(tree.at("etc/kubernetes/kubeconfig-kubelet")) != nullptr);
}

// Catches: a request that is not approved because it does not prove its node; a request that shows
// the earlier certificate, under another name; a kubelet that starts without a certificate.
TEST_F(KubeletService, ShowsItsNode) {
  supervisor->start("kubelet");
  wants("one");
  EXPECT_TRUE(joinRequest() == nullptr);
  EXPECT_THAT(events, Contains("kubelet Preparing Waiting for the certificate of this node's API"));
  apiIs("localhost");
  EXPECT_TRUE(joinRequest() == nullptr);
  EXPECT_THAT(events, Contains("kubelet Preparing Waiting until the certificate of this node's API "
                               "names w-1"));
  // Catches: a name that is missing without a reason.
  putRecord<rpc::JoinStatusSpec>(
      store, "api", [](auto spec) { spec.setMessage("trustd refuses the name"); }, "apid");
  advance(1 * kj::SECONDS);
  EXPECT_THAT(events, Contains("kubelet Preparing Waiting until the certificate of this node's API "
                               "names w-1: trustd refuses the name"));
  apiIs("w-1");
  auto first = KJ_ASSERT_NONNULL(joinRequest());
  EXPECT_EQ("w-1", kube::proveNode(object, machineCa.certificate, clock.now()).name);
  apiIs("w-1");
  EXPECT_NE(first, KJ_ASSERT_NONNULL(joinRequest()));
  EXPECT_EQ("w-1", kube::proveNode(object, machineCa.certificate, clock.now()).name);
  advance(10 * kj::MINUTES);
  EXPECT_FALSE(machine.runs("kubelet"));
  auto second = KJ_ASSERT_NONNULL(joinRequest());
  kubedSays(first, "", signature());
  EXPECT_FALSE(machine.runs("kubelet"));
  kubedSays(second, "", signature());
  EXPECT_TRUE(machine.runs("kubelet"));
}

// Catches: a control plane that starts before it has the signer of its certificate, and waits for
// an API server that waits for it; a certificate without the lifetime by which renewals are
// watched.
TEST_F(KubeletService, ControlPlaneSignsItsOwn) {
  putRecord<rpc::MachineTypeSpec>(
      store, "machine-type", [](auto spec) { spec.setType(rpc::MachineType::CONTROLPLANE); },
      "test");
  supervisor->start("kubelet");
  wants("one");
  EXPECT_EQ(0u, prepared);
  putRecord<rpc::RootSecretSpec>(
      store, kKubernetesRootId,
      [&](auto spec) {
        auto ca = spec.initK8s().initCa();
        ca.setCrt(authority.certificate.asBytes());
        ca.setKey(kj::StringPtr(authority.key).asBytes());
      },
      "test");
  advance(10 * kj::SECONDS);
  EXPECT_TRUE(machine.runs("kubelet"));
  EXPECT_TRUE(joinRequest() == nullptr);
  auto pair = pki::inspect(readFile(kj::str(tree.root, kKubeletClientPair)));
  EXPECT_TRUE(pair.notAfter - pair.notBefore == kLifetime + kBackdated);
}

// Catches: a certificate of the previous CA, signed because the key of the new one was published a
// moment after its certificate.
TEST_F(KubeletService, SignsWithTheCaThatItsConfigHas) {
  putRecord<rpc::MachineTypeSpec>(
      store, "machine-type", [](auto spec) { spec.setType(rpc::MachineType::CONTROLPLANE); },
      "test");
  auto other = pki::makeAuthority({.keyType = pki::KeyType::kEcdsaP256});
  auto signsWith = [&](const pki::CertificateAndKey& pair) {
    putRecord<rpc::RootSecretSpec>(
        store, kKubernetesRootId,
        [&](auto spec) {
          auto ca = spec.initK8s().initCa();
          ca.setCrt(pair.certificate.asBytes());
          ca.setKey(kj::StringPtr(pair.key).asBytes());
        },
        "test");
  };
  signsWith(other);
  supervisor->start("kubelet");
  wants("one");
  EXPECT_FALSE(machine.runs("kubelet"));
  signsWith(authority);
  advance(10 * kj::SECONDS);
  EXPECT_TRUE(machine.runs("kubelet"));
}

// Catches: a kubelet that is restarted for the CAs of its clients, or does not get them.
TEST_F(KubeletService, ItsClientsCasAreReplacedUnderIt) {
  join();
  supervisor->start("kubelet");
  wants("one");
  auto pid = machine.child("kubelet").pid;
  auto accepts = [&](kj::StringPtr text) {
    putRecord<rpc::KubeletSecretsSpec>(
        store, kKubeletId,
        [&](auto spec) {
          spec.setCa(authority.certificate.asBytes());
          spec.setClientCAs(text.asBytes());
        },
        "test");
    advance(10 * kj::SECONDS);
    return readFile(tree.at("etc/kubernetes/pki/ca.crt"));
  };
  EXPECT_EQ("A\nB\n", accepts("A\nB\n"));
  EXPECT_EQ("B\n", accepts("B\n"));
  EXPECT_EQ(pid, machine.child("kubelet").pid);
}

// Catches: a kubelet whose serving certificate no API server accepts after a rotation of the CA; a
// kubelet that is restarted while both CAs are accepted, or again and again.
TEST_F(KubeletService, IsRestartedForAServingCertificateOfADroppedCa) {
  join();
  supervisor->start("kubelet");
  wants("one");
  auto pid = machine.child("kubelet").pid;
  auto old = pki::makeAuthority({.keyType = pki::KeyType::kEcdsaP256});
  auto serving = pki::issue(old.certificate, old.key, {.notBefore = clock.now()});
  tree.file("var/lib/kubelet/pki/kubelet-server-current.pem", serving.certificate);
  auto accepts = [&](kj::StringPtr text) {
    putRecord<rpc::KubeletSecretsSpec>(
        store, kKubeletId,
        [&](auto spec) {
          spec.setCa(authority.certificate.asBytes());
          spec.setClientCAs(text.asBytes());
        },
        "test");
    advance(10 * kj::SECONDS);
    return machine.child("kubelet").pid;
  };
  EXPECT_EQ(pid, accepts(kj::str(authority.certificate, old.certificate)));
  auto second = accepts(authority.certificate);
  EXPECT_NE(pid, second);
  EXPECT_TRUE(tryReadFile(kj::str(tree.root, kKubeletServerPair)) == nullptr);
  advance(10 * kj::MINUTES);
  EXPECT_EQ(second, machine.child("kubelet").pid);
}

}  // namespace
}  // namespace talos::machined
