#include "talosctl/cluster/provisioner.h"

#include "common/base/error.h"

namespace talos::cluster {
namespace {

constexpr kj::StringPtr kMachineFlags[] = {
    "accelerator"_kj,   "vmlinuz-path"_kj,           "initrd-path"_kj, "qemu-root"_kj,
    "iso-path"_kj,      "extra-boot-kernel-args"_kj, "clock"_kj,       "disk"_kj,
    "encrypt-state"_kj, "encrypt-ephemeral"_kj,      "user-disk"_kj,   "disk-server"_kj,
};

constexpr kj::StringPtr kContainerFlags[] = {"image"_kj};

kj::Maybe<kj::StringPtr> firstGiven(const talosctl::Invocation& call,
                                    kj::ArrayPtr<const kj::StringPtr> flags) {
  for (auto flag : flags) {
    if (call.given(flag)) return flag;
  }
  return nullptr;
}

[[noreturn]] void refuseFlag(kj::StringPtr flag, kj::StringPtr why) {
  fail(ErrorKind::kInvalidArgument, kj::str("--", flag, ": ", why));
}

// None of the nodes is a container.
void checkMachines(const ProvisionerWish& wish) {
  if (wish.virtualMachines > 0) {
    refuseFlag("virtual-machines", "all nodes are virtual machines with --provisioner qemu");
  }
  KJ_IF_MAYBE (flag, wish.containerFlag) {
    refuseFlag(*flag, "only nodes in containers have that; use --provisioner container");
  }
}

// None of the nodes is a virtual machine, unless so many are.
void checkContainers(const ProvisionerWish& wish) {
  if (wish.virtualMachines > 0) return;
  KJ_IF_MAYBE (flag, wish.machineFlag) {
    refuseFlag(*flag,
               "only virtual machines have that; use --provisioner qemu, or --virtual-machines for "
               "some of the nodes");
  }
}

}  // namespace

Provisioner chooseProvisioner(const ProvisionerWish& wish,
                              kj::Function<kj::Maybe<kj::String>()> whyNoKvm) {
  if (wish.flag == "qemu") {
    checkMachines(wish);
    return {};
  }
  auto containers = [&](kj::String why) {
    checkContainers(wish);
    return Provisioner{
        .containers = true, .virtualMachines = wish.virtualMachines, .why = kj::mv(why)};
  };
  if (wish.flag == "container" || wish.flag == "docker") return containers({});
  if (wish.virtualMachines > 0) return containers(kj::str("--virtual-machines is set"));
  KJ_IF_MAYBE (flag, wish.containerFlag) return containers(kj::str("--", *flag, " is set"));
  KJ_IF_MAYBE (flag, wish.machineFlag) {
    return {.why = kj::str("--", *flag, " is set")};
  }
  auto whyNot = whyNoKvm();
  KJ_IF_MAYBE (why, whyNot) return containers(kj::mv(*why));
  return {.why = kj::str("KVM works on this host")};
}

kj::Maybe<kj::StringPtr> machineFlagOf(const talosctl::Invocation& call) {
  return firstGiven(call, kMachineFlags);
}

kj::Maybe<kj::StringPtr> containerFlagOf(const talosctl::Invocation& call) {
  return firstGiven(call, kContainerFlags);
}

}  // namespace talos::cluster
