// Chooses the kind of nodes of a new cluster: virtual machines, containers or both.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::cluster {

struct Provisioner {
  bool containers = false;
  unsigned virtualMachines = 0;  // of the nodes of a cluster of containers
  kj::String cause;              // of an automatic choice, to be printed; else empty

  bool needsMachines() const { return !containers || virtualMachines > 0; }
};

// The flags that decide. `machineFlag`, `containerFlag`: the name of a given flag that only virtual
// machines, or only containers, support.
struct ProvisionerRequest {
  kj::StringPtr flag;  // --provisioner: auto, qemu, container or docker, which means container
  unsigned virtualMachines = 0;
  kj::Maybe<kj::StringPtr> machineFlag = nullptr, containerFlag = nullptr;
};

// `kvmError` is called only if it matters; none if KVM works. Otherwise pure. Throws
// InvalidArgument naming the flag that does not fit.
Provisioner chooseProvisioner(const ProvisionerRequest& request,
                              kj::Function<kj::Maybe<kj::String>()> kvmError);

// The first given flag of those that only virtual machines, or only containers, support.
kj::Maybe<kj::StringPtr> machineFlagOf(const talosctl::Invocation& call);
kj::Maybe<kj::StringPtr> containerFlagOf(const talosctl::Invocation& call);

}  // namespace talos::cluster
