#include "talosctl/cluster/nodes/cluster-nodes.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::cluster {
namespace {

struct ClusterPrograms : public ::testing::Test {
  kj::String folder;
  capnp::MallocMessageBuilder message;
  rpc::LocalCluster::Builder cluster = message.initRoot<rpc::LocalCluster>();

  ClusterPrograms() {
    char path[] = "/var/cluster-programs-XXXXXX";  // every user can write to /tmp
    folder = kj::str(mkdtemp(path));
    KJ_SYSCALL(chmod(folder.cStr(), 0755));
    for (auto name : {"/build/image", "/own"}) makeDirectories(kj::str(folder, name), 0755);
    for (auto name : {"/build/image/rootfs.sqsh", "/own/rootfs.sqsh"}) {
      writeFileAtomically(kj::str(folder, name), "0"_kj, 0644);
    }
    cluster.initNodes(1)[0].setProvisioner("container");
  }
  ~ClusterPrograms() noexcept override { removeTree(folder); }

  std::string error(kj::StringPtr image) {
    cluster.setImage(kj::str(folder, image));
    auto failed = kj::runCatchingExceptions(
        [&] { prepareRun(cluster, kj::str(folder, "/build"), kj::arr(geteuid())); });
    KJ_IF_MAYBE (e, failed) {
      EXPECT_EQ(kindOf(*e), ErrorKind::kPermissionDenied);
      return messageOf(*e).cStr();
    }
    return "";
  }
};

// Catches: an image that was checked when the cluster was created, and that another user has
// replaced before its next start.
TEST_F(ClusterPrograms, FilesOfTheBuildAreCheckedAtEachStart) {
  EXPECT_EQ(error("/build/image/rootfs.sqsh"), "");
  for (auto name : {"/build/image", "/own"}) KJ_SYSCALL(chmod(kj::str(folder, name).cStr(), 0777));
  EXPECT_EQ(error("/build/image/rootfs.sqsh"),
            kj::str("cannot use ", folder,
                    "/build/image/rootfs.sqsh, which root runs: everybody can "
                    "write to ",
                    folder, "/build/image")
                .cStr());
  EXPECT_EQ(error("/own/rootfs.sqsh"), "");  // named by the user
}

}  // namespace
}  // namespace talos::cluster
