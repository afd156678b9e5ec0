// Chooses the kind of nodes of a new cluster: virtual machines, containers or both.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::cluster {

struct Provisioner {
  bool containers = false;
  unsigned virtualMachines = 0;  // number of virtual machines in a cluster of containers
  kj::String cause;              // reason of an automatic choice, to be printed; else empty

  bool needsMachines() const { return !containers || virtualMachines > 0; }
};

// The flags that determine the choice. `machineFlag`, `containerFlag`: the name of a given flag
// that only virtual machines, or only containers, support.
struct ProvisionerRequest {
  kj::StringPtr flag;  // --provisioner: auto, qemu, container or docker, which means container
  unsigned virtualMachines = 0;
  kj::Maybe<kj::StringPtr> machineFlag = nullptr, containerFlag = nullptr;
};

// Chooses the kind of nodes. Calls `kvmError` only if it matters; it returns nullptr if KVM works.
// Otherwise pure. Throws InvalidArgument naming the flag that contradicts the choice.
Provisioner chooseProvisioner(const ProvisionerRequest& request,
                              kj::Function<kj::Maybe<kj::String>()> kvmError);

// Returns the first given flag that only virtual machines, or only containers, support.
kj::Maybe<kj::StringPtr> machineFlagOf(const talosctl::Invocation& call);
kj::Maybe<kj::StringPtr> containerFlagOf(const talosctl::Invocation& call);

}  // namespace talos::cluster
