#include "talosctl/cluster/provisioner.h"

#include "common/base/error.h"

namespace talos::cluster {
namespace {

constexpr kj::StringPtr kMachineFlags[] = {
    "accelerator"_kj, "vmlinuz-path"_kj,           "initrd-path"_kj, "qemu-root"_kj,
    "iso-path"_kj,    "extra-boot-kernel-args"_kj, "clock"_kj,       "disk"_kj,
};

}  // namespace

Provisioner chooseProvisioner(const ProvisionerWish& wish, kj::Function<bool()> kvmWorks) {
  if (wish.flag == "qemu") {
    if (wish.virtualMachines > 0) {
      fail(ErrorKind::kInvalidArgument,
           "--virtual-machines: all nodes are virtual machines with --provisioner qemu");
    }
    return {};
  }
  if (wish.flag == "container" || wish.flag == "docker") {
    KJ_IF_MAYBE (flag, wish.machineFlag) {
      if (wish.virtualMachines == 0) {
        fail(ErrorKind::kInvalidArgument,
             kj::str("--", *flag,
                     ": only virtual machines have that; use --provisioner qemu, or "
                     "--virtual-machines for some of the nodes"));
      }
    }
    return {.containers = true, .virtualMachines = wish.virtualMachines, .why = {}};
  }
  if (wish.virtualMachines > 0) {
    return {.containers = true,
            .virtualMachines = wish.virtualMachines,
            .why = kj::str("--virtual-machines is set")};
  }
  KJ_IF_MAYBE (flag, wish.machineFlag) {
    return {.why = kj::str("--", *flag, " is set")};
  }
  if (kvmWorks()) return {.why = kj::str("KVM works on this host")};
  return {.containers = true, .why = kj::str("KVM does not work on this host")};
}

kj::Maybe<kj::StringPtr> machineFlagOf(const talosctl::Invocation& call) {
  for (auto flag : kMachineFlags) {
    if (call.given(flag)) return flag;
  }
  return nullptr;
}

}  // namespace talos::cluster
