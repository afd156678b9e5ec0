// The files of a local cluster after commands that change it.
#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/kube/kubeconfig.h"
#include "common/talosconfig/talosconfig.h"
#include "talosctl/cluster/cluster-command.h"
#include "talosctl/cluster/local-cluster.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A local cluster of a control-plane node and a worker, in the state folder of the user or in
// another one.
struct LocalFiles : public ClusterTest {
  cluster::StateDirectory state;

  explicit LocalFiles(kj::StringPtr clusters = "/.talos/clusters")
      : state(kj::str(c.folder, clusters), "demo") {
    c.test.environment.insert(kj::str("HOME"), kj::str(c.folder));
    addClusterCommands(*c.root);
    makeDirectories(state.path(), 0700);
    capnp::MallocMessageBuilder message;
    auto nodes = message.initRoot<rpc::LocalCluster>().initNodes(2);
    struct {
      kj::StringPtr name, type, address, endpoint;
    } rows[] = {{"demo-master-1"_kj, "controlplane"_kj, "10.0.0.2"_kj, "127.7.0.2"_kj},
                {"demo-worker-1"_kj, "join"_kj, "10.0.0.3"_kj, "127.7.0.3"_kj}};
    for (unsigned i : {0u, 1u}) {
      nodes[i].setName(rows[i].name);
      nodes[i].setType(rows[i].type);
      nodes[i].setAddress(rows[i].address);
      nodes[i].setEndpoint(rows[i].endpoint);
      writeFileAtomically(file(kj::str(rows[i].name, ".yaml")), "as created\n"_kj, 0600);
      node(rows[i].address).config.document = kj::str("now: ", rows[i].name, "\n");
    }
    state.save(message.getRoot<rpc::LocalCluster>());
    writeFileAtomically(file("talosconfig"), readFile(c.configPath()), 0600);
    auto admin = pki::issue(c.authority.certificate, c.authority.key, {.server = false});
    auto text =
        kube::writeKubeconfig({.cluster = "demo",
                               .server = "https://10.0.0.2:6443",
                               .authority = c.authority.certificate,
                               .user = "admin@demo",
                               .credentials = kube::ClientPair{admin.certificate, admin.key},
                               .context = "admin@demo"});
    node("10.0.0.2").kubeconfig = kj::str(kj::StringPtr(text));
  }
  ~LocalFiles() noexcept override {}

  kj::String file(kj::StringPtr name) { return state.file(name); }
  bool has(kj::StringPtr name) { return tryReadFile(file(name)) != nullptr; }
  // Leaves the mark of a rotate-ca that was cut off.
  void cutOff() { writeFileAtomically(file("outdated"), ""_kj, 0600); }
};

// Catches: a kubeconfig for the network of the nodes, which this host does not reach; the user's
// own --endpoint that is ignored; another cluster whose kubeconfig is changed.
TEST_F(LocalFiles, AKubeconfigLeadsToAnAddressOfThisHost) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", "-"}), 0) << err();
  EXPECT_THAT(out(), AllOf(HasSubstr("https://127.7.0.2:6443"), HasSubstr("tls-server-name: ")));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", "-", "--endpoint", "10.9.9.9"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("https://10.9.9.9:6443"));
  auto other = pki::makeAuthority({.organization = "talos"});
  auto config = Talosconfig::load(file("talosconfig"));
  config.resolve().ca = kj::mv(other.certificate);
  config.save(file("talosconfig"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", "-"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("https://10.0.0.2:6443"));
}

// Catches: a worker that boots after a reset with the config of its creation, whose CA and token
// may have been replaced since; a config of another node that is written for it.
TEST_F(LocalFiles, ResetStoresThePresentConfig) {
  c.run({"-n", "10.0.0.3", "reset", "--wait=false"});
  EXPECT_THAT(err(), Not(HasSubstr("WARNING")));
  EXPECT_EQ(readFile(file("demo-worker-1.yaml")), "now: demo-worker-1\n");
  EXPECT_EQ(readFile(file("demo-master-1.yaml")), "as created\n");
}

// In a folder that `cluster create --state` has named.
struct FilesElsewhere : public LocalFiles {
  FilesElsewhere() : LocalFiles("/elsewhere") {
    auto& create = KJ_ASSERT_NONNULL(commandAt(*c.root, "cluster create"));
    create.run = [](Invocation& call) -> kj::Promise<int> {
      co_await rememberFolder(call);
      co_return 0;
    };
  }
  ~FilesElsewhere() noexcept override {}

  kj::String folder(kj::StringPtr name) { return kj::str(c.folder, name); }
  std::string remembered() { return readFile(folder("/.talos/cluster-folders")).cStr(); }
};

// Catches: a cluster of `cluster create --state` that the commands without this flag do not find:
// after a rotate-ca or a reset its nodes boot with the configs of their creation.
TEST_F(FilesElsewhere, ResetStoresThePresentConfigInARememberedFolder) {
  c.run({"-n", "10.0.0.3", "reset", "--wait=false"});
  EXPECT_EQ(readFile(file("demo-worker-1.yaml")), "as created\n");
  err();
  EXPECT_EQ(c.run({"cluster", "create", "--state", folder("/elsewhere")}), 0) << err();
  EXPECT_EQ(err(), "");
  c.run({"-n", "10.0.0.3", "reset", "--wait=false"});
  EXPECT_THAT(err(), Not(HasSubstr("WARNING")));
  EXPECT_EQ(readFile(file("demo-worker-1.yaml")), "now: demo-worker-1\n");
  EXPECT_EQ(readFile(file("demo-master-1.yaml")), "as created\n");
  EXPECT_EQ(c.run({"cluster", "show"}), 0);
  EXPECT_THAT(err(), HasSubstr(kj::str("start --name demo --state ", folder("/elsewhere")).cStr()));
}

// Catches: an interrupted rotate-ca of a cluster elsewhere whose files no command stores.
TEST_F(FilesElsewhere, AnInterruptedRotationIsEndedThere) {
  EXPECT_EQ(c.run({"cluster", "create", "--state", folder("/elsewhere")}), 0) << err();
  cutOff();
  c.run({"-n", "10.0.0.2", "kubeconfig", "-"});
  EXPECT_EQ(readFile(file("demo-master-1.yaml")), "now: demo-master-1\n");
  EXPECT_FALSE(has("outdated"));
}

// Catches: a list of folders that grows with each cluster that was removed, or that names a folder
// twice; a default folder that is searched twice.
TEST_F(FilesElsewhere, FoldersWithoutAClusterAreForgotten) {
  for (auto name : {"/gone", "/elsewhere", "/gone", "/elsewhere", "/.talos/clusters"}) {
    makeDirectories(folder("/gone/demo"), 0700);
    EXPECT_EQ(c.run({"cluster", "create", "--state", folder(name)}), 0) << err();
  }
  EXPECT_EQ(remembered(), kj::str(c.folder, "/gone\n", c.folder, "/elsewhere\n").cStr());
  removeTree(folder("/gone/demo"));
  EXPECT_EQ(c.run({"cluster", "create", "--state", folder("/elsewhere")}), 0) << err();
  EXPECT_EQ(remembered(), kj::str(c.folder, "/elsewhere\n").cStr());
}

// Catches: a `cluster create` that fails because of a file that it only uses later; one that says
// nothing when the promise of the files cannot be kept.
TEST_F(FilesElsewhere, AClusterThatCannotBeRememberedSaysSo) {
  makeDirectories(folder("/.talos/cluster-folders"), 0700);
  EXPECT_EQ(c.run({"cluster", "create", "--state", folder("/elsewhere")}), 0);
  EXPECT_THAT(err(), HasSubstr("NOTE: kubeconfig, reset and rotate-ca do not keep the files"));
}

// Catches: configs and a kubeconfig of the old CA that no command replaces after a rotate-ca that
// was cut off in its last step; a mark that stays although all is stored.
TEST_F(LocalFiles, WhatAnInterruptedRotationHasLeftIsStoredByTheNextCommand) {
  auto message = state.load();
  auto cluster = message->getRoot<rpc::LocalCluster>();
  cluster.getNodes()[0].setEndpoint("127.0.0.2");  // the model of the cluster listens there
  state.save(cluster);
  node("127.0.0.1").kubeconfig = kj::str(node("10.0.0.2").kubeconfig);
  writeFileAtomically(file("kubeconfig"), "old\n"_kj, 0600);
  cutOff();
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", "-"}), 0);
  EXPECT_THAT(out(), HasSubstr("https://127.0.0.2:6443"));
  auto notes = err();
  EXPECT_THAT(notes, HasSubstr("which an interrupted rotate-ca has left\n"));
  EXPECT_THAT(notes, Not(HasSubstr("WARNING")));
  EXPECT_EQ(readFile(file("demo-master-1.yaml")), "now: demo-master-1\n");
  EXPECT_EQ(readFile(file("demo-worker-1.yaml")), "now: demo-worker-1\n");
  EXPECT_THAT(readFile(file("kubeconfig")).cStr(), HasSubstr("https://10.0.0.2:6443"));
  EXPECT_FALSE(has("outdated"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", "-"}), 0);
  EXPECT_EQ(err(), "");
}

// Catches: a mark that is gone although a node that was off has kept an old config.
TEST_F(LocalFiles, AFileThatCouldNotBeStoredIsStoredLater) {
  cutOff();
  node("10.0.0.3").off = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", "-"}), 0);
  EXPECT_THAT(err(), HasSubstr("WARNING: demo-worker-1.yaml of the local cluster is not up to"));
  EXPECT_EQ(readFile(file("demo-master-1.yaml")), "now: demo-master-1\n");
  EXPECT_TRUE(has("outdated"));
  node("10.0.0.3").off = false;
  writeFileAtomically(file("demo-master-1.yaml"), "old\n"_kj, 0600);
  c.run({"-n", "10.0.0.3", "reset", "--wait=false"});
  EXPECT_EQ(readFile(file("demo-master-1.yaml")), "now: demo-master-1\n");
  EXPECT_EQ(readFile(file("demo-worker-1.yaml")), "now: demo-worker-1\n");
  EXPECT_FALSE(has("outdated"));
}

// Catches: a cluster that is no longer that of the context because a rotate-ca was cut off between
// the two talosconfigs; one of the same name elsewhere that counts as this cluster.
TEST_F(LocalFiles, AClusterIsFoundBetweenTwoTalosconfigs) {
  auto other = pki::makeAuthority({.organization = "talos"});
  auto config = Talosconfig::load(file("talosconfig"));
  config.resolve().ca = kj::mv(other.certificate);
  config.save(file("talosconfig"));
  writeFileAtomically(file("context"), "test"_kj, 0600);
  cutOff();
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", "-"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("https://127.7.0.2:6443"));
  EXPECT_EQ(readFile(file("demo-worker-1.yaml")), "now: demo-worker-1\n");
  EXPECT_TRUE(has("outdated"));
  config.resolve().endpoints[0] = kj::str("10.9.9.9");
  config.save(file("talosconfig"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", "-"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("https://10.0.0.2:6443"));
}

// Catches: a stored config that is lost because the node does not answer.
TEST_F(LocalFiles, ANodeThatIsOffKeepsItsStoredConfig) {
  node("10.0.0.3").off = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.3", "reset", "--wait=false"}), 1);
  EXPECT_THAT(err(),
              HasSubstr("WARNING: demo-worker-1.yaml of the local cluster is not up to date: "));
  EXPECT_EQ(readFile(file("demo-worker-1.yaml")), "as created\n");
}

}  // namespace
}  // namespace talos::talosctl
