#include "talosctl/cluster/provisioner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::cluster {
namespace {

// `noKvm`: why KVM does not work; empty: it works.
std::string choose(ProvisionerRequest request, kj::StringPtr noKvm, bool mayAsk = true) {
  std::string text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 auto chosen = chooseProvisioner(request, [&]() {
                   EXPECT_TRUE(mayAsk) << "takes seconds";
                   return noKvm.size() == 0 ? kj::Maybe<kj::String>() : kj::str(noKvm);
                 });
                 text = kj::str(chosen.containers ? "container" : "qemu", " ",
                                chosen.virtualMachines, " ", chosen.cause)
                            .cStr();
               })) {
    text = messageOf(*e).cStr();
  }
  return text;
}

// Catches: a user's choice that is ignored, an automatic choice that is not printed, a test of the
// host that takes seconds although the result does not matter, a flag that is accepted and has no
// effect.
TEST(Provisioner, TheUsersChoiceElseTheHosts) {
  EXPECT_EQ(choose({.flag = "auto"}, ""), "qemu 0 KVM works on this host");
  EXPECT_EQ(choose({.flag = "auto"}, "cannot find QEMU"), "container 0 cannot find QEMU");
  EXPECT_EQ(choose({.flag = "qemu"}, "x", false), "qemu 0 ");
  EXPECT_EQ(choose({.flag = "container"}, "", false), "container 0 ");
  EXPECT_EQ(choose({.flag = "docker"}, "", false), "container 0 ");
  EXPECT_EQ(choose({.flag = "docker", .virtualMachines = 2}, "", false), "container 2 ");
  EXPECT_EQ(choose({.flag = "auto", .virtualMachines = 1}, "", false),
            "container 1 --virtual-machines is set");
  EXPECT_EQ(choose({.flag = "auto", .machineFlag = "clock"_kj}, "x", false),
            "qemu 0 --clock is set");
  EXPECT_EQ(choose({.flag = "container", .machineFlag = "clock"_kj}, "x", false),
            "--clock: only virtual machines support this flag; use --provisioner qemu, or "
            "--virtual-machines for some of the nodes");
  EXPECT_EQ(choose({.flag = "container", .virtualMachines = 1, .machineFlag = "clock"_kj}, "x"),
            "container 1 ");
  EXPECT_EQ(choose({.flag = "qemu", .virtualMachines = 1}, "x"),
            "--virtual-machines: all nodes are virtual machines with --provisioner qemu");
  EXPECT_EQ(choose({.flag = "auto", .containerFlag = "image"_kj}, "", false),
            "container 0 --image is set");
  EXPECT_EQ(choose({.flag = "container", .containerFlag = "image"_kj}, "", false), "container 0 ");
  EXPECT_EQ(choose({.flag = "qemu", .containerFlag = "image"_kj}, "", false),
            "--image: only nodes in containers support this flag; use --provisioner container");
  EXPECT_EQ(
      choose({.flag = "auto", .machineFlag = "clock"_kj, .containerFlag = "image"_kj}, "", false),
      "--clock: only virtual machines support this flag; use --provisioner qemu, or "
      "--virtual-machines for some of the nodes");
}

}  // namespace
}  // namespace talos::cluster
