#include "machined/services/containers/container-run.h"

#include <gtest/gtest.h>

namespace talos::machined {
namespace {

// Catches: a folder of another container, of a pod or of anything else that is removed because an
// answer contains its name.
TEST(LeftBundle, IsTheFolderOfThisContainerAlone) {
  constexpr kj::StringPtr kOwn = "/run/containerd/io.containerd.runtime.v2.task/system/etcd"_kj;
  auto answer = [](kj::StringPtr folder) {
    return kj::str("failed to start shim: mkdir ", folder, ": file exists");
  };
  KJ_IF_MAYBE (folder, blockingBundle(answer(kOwn), "etcd")) {
    EXPECT_EQ(*folder, kOwn);
  } else {
    ADD_FAILURE() << "not found";
  }
  for (auto& other : {
           answer("/run/containerd/io.containerd.runtime.v2.task/system/kubelet"),
           answer("/run/containerd/io.containerd.runtime.v2.task/k8s.io/etcd"),
           answer("io.containerd.runtime.v2.task/system/etcd"),
           answer("/run/../x/io.containerd.runtime.v2.task/system/etcd"),
           answer("/etcd"),
           kj::str("failed to start shim: mkdir ", kOwn, ": no space left on device"),
           kj::str("failed to start shim: start failed: open ", kOwn, "/shim-binary-path"),
           kj::str("mkdir ", kOwn, ": file exists"),
           kj::str("failed to start shim: mkdir "),
           kj::str(),
       }) {
    EXPECT_TRUE(blockingBundle(other, "etcd") == nullptr) << other.cStr();
  }
}

}  // namespace
}  // namespace talos::machined
