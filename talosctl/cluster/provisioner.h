// Which kind of nodes a new cluster has, and what the user is told about it.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cluster/processes/host-probe.h"

namespace talos::cluster {

struct Provisioner {
  bool containers = false;
  unsigned virtualMachines = 0;  // of the nodes of a cluster of containers
  kj::String why;                // of a choice that nobody made: for a note

  bool needsMachines() const { return !containers || virtualMachines > 0; }
};

// What decides it. `machineFlag`, `containerFlag`: a flag that only virtual machines, or only
// containers, know was given; its name.
struct ProvisionerWish {
  kj::StringPtr flag;  // --provisioner: auto, qemu, container or docker, which means container
  unsigned virtualMachines = 0;
  kj::Maybe<kj::StringPtr> machineFlag = nullptr, containerFlag = nullptr;
};

// Pure but for `whyNoKvm`, which is asked only if it matters: none if KVM works. Throws
// InvalidArgument naming the flag that does not fit.
Provisioner chooseProvisioner(const ProvisionerWish& wish,
                              kj::Function<kj::Maybe<kj::String>()> whyNoKvm);

// The first flag of those that only virtual machines, or only containers, know that was given.
kj::Maybe<kj::StringPtr> machineFlagOf(const talosctl::Invocation& call);
kj::Maybe<kj::StringPtr> containerFlagOf(const talosctl::Invocation& call);

}  // namespace talos::cluster
