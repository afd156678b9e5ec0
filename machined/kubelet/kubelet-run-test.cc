#include "machined/kubelet/kubelet-run.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "machined/services/test-supervisor.h"

namespace talos::machined {
namespace {

using testing::Contains;

constexpr kj::StringPtr kBootstrap =
    "clusters:\n- cluster:\n    certificate-authority-data: Q0EK\n"
    "    server: https://10.5.0.2:6443\n  name: local\n"_kj;
constexpr kj::StringPtr kOwn =
    "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: Q0EK\n"
    "    server: \"https://10.5.0.2:6443\"\n  name: default-cluster\n"_kj;

// Catches: a kubelet that asks the endpoint of yesterday for ever, or joins anew with each start.
TEST(KubeletFiles, KubeconfigOfTheKubelet) {
  EXPECT_TRUE(leadsHere(kOwn, kBootstrap));
  EXPECT_FALSE(leadsHere("clusters: []\n", kBootstrap));
  EXPECT_FALSE(leadsHere(
      "    certificate-authority-data: Q0EK\n    server: https://10.5.0.9:6443\n", kBootstrap));
  EXPECT_FALSE(
      leadsHere("    certificate-authority-data: T1RIRVIK\n"
                "    server: https://10.5.0.2:6443\n",
                kBootstrap));
}

// Catches: a token that others can read, a kubelet without its CA, a key of another cluster.
TEST(KubeletFiles, AreRootsAlone) {
  TestTree tree;
  capnp::MallocMessageBuilder a, b;
  auto spec = a.initRoot<rpc::KubeletSpecSpec>();
  spec.setConfig("kind: KubeletConfiguration\n");
  spec.initExtraMounts(1)[0].setSource("/var/extra");
  auto secrets = b.initRoot<rpc::KubeletSecretsSpec>();
  secrets.setCa("CA\n"_kj.asBytes());
  secrets.setBootstrapKubeconfig(kBootstrap);
  auto mode = [&](kj::StringPtr path) {
    struct stat info = {};
    KJ_SYSCALL(stat(tree.at(path).cStr(), &info), path);
    return info.st_mode & 07777;
  };
  auto write = [&] { writeKubeletFiles(tree.root, spec, secrets); };
  write();
  EXPECT_EQ(0600u, mode("etc/kubernetes/bootstrap-kubeconfig"));
  EXPECT_EQ(0600u, mode("etc/kubernetes/kubelet.yaml"));
  EXPECT_EQ(0500u, mode("etc/kubernetes/pki/ca.crt"));
  EXPECT_EQ(0700u, mode("var/extra"));
  EXPECT_EQ(0755u, mode("opt/cni/bin"));
  EXPECT_EQ("CA\n", readFile(tree.at("etc/kubernetes/pki/ca.crt")));
  EXPECT_EQ(kBootstrap, readFile(tree.at("etc/kubernetes/bootstrap-kubeconfig")));

  auto own = tree.at("etc/kubernetes/kubeconfig-kubelet");
  tree.file("etc/kubernetes/kubeconfig-kubelet", kOwn);
  write();
  EXPECT_TRUE(tryReadFile(own) != nullptr) << "it leads here";
  tree.directory("var/lib/kubelet/pki");
  tree.file("var/lib/kubelet/pki/kubelet-client-current.pem", "x");
  secrets.setBootstrapKubeconfig("    server: https://other:6443\n");
  write();
  EXPECT_TRUE(tryReadFile(own) == nullptr);
  EXPECT_TRUE(tryReadFile(tree.at("var/lib/kubelet/pki/kubelet-client-current.pem")) == nullptr);
}

// --- the service

struct KubeletService : public SupervisorTest {
  ~KubeletService() noexcept override {}
  TestTree tree;
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  kj::String digest = tree.at("digest");
  kj::Maybe<KubeletRun> kubelet;
  static constexpr kj::StringPtr kNowhere = "nowhere"_kj;  // is pulled for ever
  unsigned prepared = 0;

  KubeletService() { begin(); }
  void begin() {
    auto& run = kubelet.emplace(KubeletRun::Dependencies{.timer = timer,
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
    supervisor->load(kj::mv(d));
    run.follow();
  }
  void wants(kj::StringPtr image) {
    putRecord<rpc::KubeletSecretsSpec>(
        store, kKubeletId, [](auto spec) { spec.setCa("CA\n"_kj.asBytes()); }, "test");
    putRecord<rpc::KubeletSpecSpec>(
        store, kKubeletId, [&](auto spec) { spec.setImage(image); }, "test");
    advance(10 * kj::SECONDS);
  }
};

// Catches: a kubelet that runs before there is something to run it with; one that is started anew
// for nothing, by a brain that was restarted too, or runs on as it was.
TEST_F(KubeletService, RunsAsTheSpecWants) {
  supervisor->start("kubelet");
  advance(1 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("kubelet"));
  EXPECT_THAT(told, Contains("kubelet Preparing Waiting for the name and the addresses of the "
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

// Catches: a kubelet that waits for an image that was a mistake, after it was corrected; one that
// is told to start anew again and again.
TEST_F(KubeletService, WaitsForTheImageThatIsWantedNow) {
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

}  // namespace
}  // namespace talos::machined
