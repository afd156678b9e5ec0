#include "talosctl/cluster/provisioner.h"

#include "common/base/error.h"

namespace talos::cluster {
namespace {

constexpr kj::StringPtr kMachineFlags[] = {
    "accelerator"_kj,       "vmlinuz-path"_kj, "initrd-path"_kj, "qemu-root"_kj,
    "iso-path"_kj,          "clock"_kj,        "disk"_kj,        "encrypt-state"_kj,
    "encrypt-ephemeral"_kj, "user-disk"_kj,    "disk-server"_kj,
};

constexpr kj::StringPtr kContainerFlags[] = {"image"_kj, "image-cache"_kj};

kj::Maybe<kj::StringPtr> firstGiven(const talosctl::Invocation& call,
                                    kj::ArrayPtr<const kj::StringPtr> flags) {
  for (auto flag : flags) {
    if (call.given(flag)) return flag;
  }
  return nullptr;
}

[[noreturn]] void refuseFlag(kj::StringPtr flag, kj::StringPtr error) {
  fail(ErrorKind::kInvalidArgument, kj::str("--", flag, ": ", error));
}

// Refuses flags for containers, because no node is a container.
void checkMachines(const ProvisionerRequest& request) {
  if (request.virtualMachines > 0) {
    refuseFlag("virtual-machines", "all nodes are virtual machines with --provisioner qemu");
  }
  KJ_IF_MAYBE (flag, request.containerFlag) {
    refuseFlag(*flag, "only nodes in containers support this flag; use --provisioner container");
  }
}

// Refuses flags for virtual machines if no node is one.
void checkContainers(const ProvisionerRequest& request) {
  if (request.virtualMachines > 0) return;
  KJ_IF_MAYBE (flag, request.machineFlag) {
    refuseFlag(
        *flag,
        "only virtual machines support this flag; use --provisioner qemu, or --virtual-machines "
        "for some of the nodes");
  }
}

}  // namespace

Provisioner chooseProvisioner(const ProvisionerRequest& request,
                              kj::Function<kj::Maybe<kj::String>()> kvmError) {
  if (request.flag == "qemu") {
    checkMachines(request);
    return {};
  }
  auto containers = [&](kj::String cause) {
    checkContainers(request);
    return Provisioner{
        .containers = true, .virtualMachines = request.virtualMachines, .cause = kj::mv(cause)};
  };
  if (request.flag == "container" || request.flag == "docker") return containers({});
  if (request.virtualMachines > 0) return containers(kj::str("--virtual-machines is set"));
  KJ_IF_MAYBE (flag, request.containerFlag) return containers(kj::str("--", *flag, " is set"));
  KJ_IF_MAYBE (flag, request.machineFlag) {
    return {.cause = kj::str("--", *flag, " is set")};
  }
  auto error = kvmError();
  KJ_IF_MAYBE (cause, error) return containers(kj::mv(*cause));
  return {.cause = kj::str("KVM works on this host")};
}

kj::Maybe<kj::StringPtr> machineFlagOf(const talosctl::Invocation& call) {
  return firstGiven(call, kMachineFlags);
}

kj::Maybe<kj::StringPtr> containerFlagOf(const talosctl::Invocation& call) {
  if (!call.on("ipv4")) return "ipv4=false"_kj;
  return firstGiven(call, kContainerFlags);
}

}  // namespace talos::cluster
