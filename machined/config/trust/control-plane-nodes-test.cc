// The list of control-plane nodes across boots.
#include "machined/config/trust/control-plane-nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {
namespace {

using ::testing::HasSubstr;

struct ControlPlaneNodesTest : ::testing::Test {
  ~ControlPlaneNodesTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  UvLoop uv{io.unixEventPort, timer};
  TestTree tree;
  kj::String file = tree.at("control-plane-nodes");
  bool mounted = true;
  Registry registry;
  TestClock clock;
  kj::Own<Store> store = kj::heap<Store>(registry, clock);
  kj::Own<ControlPlaneNodes> nodes = fresh();

  kj::Own<ControlPlaneNodes> fresh() {
    return kj::heap<ControlPlaneNodes>(ControlPlaneNodes::Dependencies{
        .uv = uv, .isMounted = [this] { return mounted; }, .file = file});
  }
  void reboot() {
    store = kj::heap<Store>(registry, clock);
    nodes = fresh();
  }
  // Returns "-" while the nodes are not known.
  std::string get() {
    auto known = timer.timeoutAfter(20 * kj::SECONDS, nodes->get(*store)).wait(io.waitScope);
    KJ_IF_MAYBE (hosts, known) return kj::strArray(*hosts, " ").cStr();
    return "-";
  }
  void putMember(kj::StringPtr name, kj::StringPtr type, kj::StringPtr address) {
    putRecord<rpc::MemberSpec>(*store, name, [&](auto spec) {
      spec.setHostname(kj::str(name, ".example.org"));
      spec.setMachineType(type);
      spec.initAddresses(1).set(0, address);
    });
  }
  void putEtcdMember(kj::StringPtr id, kj::StringPtr name, kj::StringPtr url) {
    putRecord<rpc::EtcdMemberSpec>(*store, id, [&](auto spec) {
      spec.setName(name);
      spec.initPeerUrls(1).set(0, url);
    });
  }
};

// Catches: a boot after which the control-plane nodes are not known, so that a worker gets the name
// of such a node, or no name until Kubernetes runs; a worker whose names are reserved.
TEST_F(ControlPlaneNodesTest, AreKnownAfterABoot) {
  EXPECT_EQ(get(), "-");
  EXPECT_NE(access(file.cStr(), F_OK), 0) << "an empty list would look like one";
  putMember("cp2", "controlplane", "10.5.0.3");
  putMember("w1", "worker", "10.5.0.4");
  EXPECT_EQ(get(), "10.5.0.3 cp2 cp2.example.org");
  struct stat mode;
  ASSERT_EQ(stat(file.cStr(), &mode), 0);
  EXPECT_EQ(mode.st_mode & 0777, 0600u);
  reboot();
  EXPECT_EQ(get(), "10.5.0.3 cp2 cp2.example.org");
}

// Catches: a cluster without Kubernetes whose workers get no names, or the names of its members; an
// etcd that starts first and replaces the stored list; nodes that have left and whose names stay
// reserved for ever.
TEST_F(ControlPlaneNodesTest, EtcdAddsAndKubernetesReplaces) {
  putEtcdMember("f00", "cp1", "https://10.5.0.2:2380");
  putEtcdMember("f01", "", "https://[fd00::3]:2380");
  putEtcdMember("f02", "no name", "nonsense");
  EXPECT_EQ(get(), "10.5.0.2 cp1 fd00::3");
  reboot();
  putEtcdMember("f00", "cp3", "https://10.5.0.5:2380");
  EXPECT_EQ(get(), "10.5.0.2 10.5.0.5 cp1 cp3 fd00::3");
  putMember("w1", "worker", "10.5.0.4");
  EXPECT_EQ(get(), "10.5.0.2 10.5.0.5 cp1 cp3 fd00::3") << "not even this node is listed";
  putMember("cp2", "controlplane", "10.5.0.3");
  EXPECT_EQ(get(), "10.5.0.3 10.5.0.5 cp2 cp2.example.org cp3");
  reboot();
  EXPECT_EQ(get(), "10.5.0.3 10.5.0.5 cp2 cp2.example.org cp3");
}

// Catches: a damaged list that counts as valid, or that is not replaced.
TEST_F(ControlPlaneNodesTest, AFileThatIsNoListCountsAsMissing) {
  for (auto content : {""_kj, "\n"_kj, "cp1\nnot a name\n"_kj, "cp1\n\n10.5.0.2\n"_kj}) {
    reboot();
    writeFileAtomically(file, content, 0600);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(get(), "-");
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("trustd signs no names until etcd or Kubernetes answers"));
  }
  putMember("cp2", "controlplane", "10.5.0.3");
  EXPECT_EQ(get(), "10.5.0.3 cp2 cp2.example.org");
  reboot();
  EXPECT_EQ(get(), "10.5.0.3 cp2 cp2.example.org");
}

// Catches: a list that waits for a STATE that is never mounted; nodes found before the mount that
// replace the list on STATE; a full disk that ends trustd's work.
TEST_F(ControlPlaneNodesTest, WaitForNoStateAndAddToIt) {
  writeFileAtomically(file, "cp1\n"_kj, 0600);
  mounted = false;
  EXPECT_EQ(get(), "-");
  putEtcdMember("f00", "cp3", "https://10.5.0.5:2380");
  EXPECT_EQ(get(), "10.5.0.5 cp3");
  mounted = true;
  EXPECT_EQ(get(), "10.5.0.5 cp1 cp3");
  reboot();
  EXPECT_EQ(get(), "10.5.0.5 cp1 cp3");
  file = tree.at("missing/control-plane-nodes");
  reboot();
  putEtcdMember("f00", "cp3", "https://10.5.0.5:2380");
  EXPECT_EQ(get(), "10.5.0.5 cp3");
}

}  // namespace
}  // namespace talos::machined
