#include "machined/services/containers/container-run.h"

#include <gmock/gmock.h>

#include <string>

namespace talos::machined {
namespace {

using testing::HasSubstr;
using testing::Not;

ContainerSpec extensionSpec() {
  ContainerSpec spec;
  spec.id = kj::str("ext-agent");
  spec.arguments = kj::arr(kj::str("/bin/agent"));
  spec.extension = ExtensionBounds{.rootFolder = kj::str("/usr/local/lib/containers/agent")};
  return spec;
}

std::string textOf(const ContainerSpec& spec) {
  return runtimeSpec(spec).cStr();
}

// Catches: a service of an extension with a writable root or more namespaces than its file says.
TEST(ExtensionSpec, IsAPartOfTheNodeWithARootOfItsOwn) {
  auto spec = extensionSpec();
  auto text = textOf(spec);
  EXPECT_THAT(text, HasSubstr("\"root\":{\"path\":\"rootfs\",\"readonly\":true}"));
  EXPECT_THAT(text, HasSubstr("\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"mount\"}]"));
  EXPECT_THAT(text, HasSubstr("\"devices\":[{\"allow\":true,\"access\":\"rwm\"}]"));
  EXPECT_THAT(text, HasSubstr("\"maskedPaths\":[\"/proc/acpi\""));
  EXPECT_THAT(text, HasSubstr("\"rootfsPropagation\":\"private\""));
  EXPECT_THAT(text, HasSubstr("{\"destination\":\"/etc/hosts\",\"type\":\"bind\""));
  EXPECT_THAT(text, Not(HasSubstr("seccomp")));
}

TEST(ExtensionSpec, ItsFileRestrictsAndPermits) {
  auto spec = extensionSpec();
  auto& bounds = KJ_ASSERT_NONNULL(spec.extension);
  bounds.writableRoot = bounds.writableSysfs = true;
  bounds.masked = kj::Array<kj::String>(kj::heapArray<kj::String>(0));
  bounds.readOnly = kj::Array<kj::String>(kj::arr(kj::str("/proc/a\"b")));
  bounds.propagation = kj::str("rshared");
  auto text = textOf(spec);
  EXPECT_THAT(text, HasSubstr("\"root\":{\"path\":\"rootfs\"}"));
  EXPECT_THAT(text, HasSubstr("\"maskedPaths\":[],\"readonlyPaths\":[\"/proc/a\\\"b\"]"));
  EXPECT_THAT(text, HasSubstr("\"rootfsPropagation\":\"rshared\""));
  EXPECT_THAT(text, HasSubstr("\"type\":\"sysfs\",\"source\":\"sysfs\",\"options\":[\"nosuid\","
                              "\"noexec\",\"nodev\"]"));
}

// Catches: the node's /dev below an empty one, or with a new instance of terminals over it.
TEST(ExtensionSpec, AMountOfTheFileReplacesTheUsualOne) {
  auto spec = extensionSpec();
  spec.mounts = kj::arr(ContainerMount{kj::str("/dev"), kj::str("/dev"), true});
  auto text = textOf(spec);
  EXPECT_THAT(text, HasSubstr("{\"destination\":\"/dev\",\"type\":\"bind\""));
  EXPECT_THAT(text, Not(HasSubstr("\"/dev/pts\"")));
  EXPECT_THAT(text, Not(HasSubstr("\"type\":\"tmpfs\"")));
  EXPECT_THAT(text, HasSubstr("{\"destination\":\"/proc\",\"type\":\"proc\""));
}

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
