#include "talosctl/cluster/provisioner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::cluster {
namespace {

std::string choose(ProvisionerWish wish, bool kvm = false, bool mayAsk = true) {
  std::string text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 auto chosen = chooseProvisioner(wish, [&] {
                   EXPECT_TRUE(mayAsk) << "takes seconds";
                   return kvm;
                 });
                 text = kj::str(chosen.containers ? "container" : "qemu", " ",
                                chosen.virtualMachines, " ", chosen.why)
                            .cStr();
               })) {
    text = messageOf(*e).cStr();
  }
  return text;
}

// Catches: a choice that the user made and that is not followed, one that is made and not said, a
// host that is looked at for seconds when the answer does not matter, a flag that is accepted and
// does nothing.
TEST(Provisioner, TheUsersChoiceElseTheHosts) {
  EXPECT_EQ(choose({.flag = "auto"}, true), "qemu 0 KVM works on this host");
  EXPECT_EQ(choose({.flag = "auto"}, false), "container 0 KVM does not work on this host");
  EXPECT_EQ(choose({.flag = "qemu"}, false, false), "qemu 0 ");
  EXPECT_EQ(choose({.flag = "container"}, true, false), "container 0 ");
  EXPECT_EQ(choose({.flag = "docker"}, true, false), "container 0 ");
  EXPECT_EQ(choose({.flag = "docker", .virtualMachines = 2}, true, false), "container 2 ");
  EXPECT_EQ(choose({.flag = "auto", .virtualMachines = 1}, true, false),
            "container 1 --virtual-machines is set");
  EXPECT_EQ(choose({.flag = "auto", .machineFlag = "clock"_kj}, false, false),
            "qemu 0 --clock is set");
  EXPECT_EQ(choose({.flag = "container", .machineFlag = "clock"_kj}, false, false),
            "--clock: only virtual machines have that; use --provisioner qemu, or "
            "--virtual-machines for some of the nodes");
  EXPECT_EQ(choose({.flag = "container", .virtualMachines = 1, .machineFlag = "clock"_kj}),
            "container 1 ");
  EXPECT_EQ(choose({.flag = "qemu", .virtualMachines = 1}),
            "--virtual-machines: all nodes are virtual machines with --provisioner qemu");
}

}  // namespace
}  // namespace talos::cluster
