// What the controllers here read from the machine config, taken out of its document.
#pragma once

#include "common/pki.h"
#include "machined/controllers/network-plan.h"
#include "machined/resources/store.h"
#include "rpc/types.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kMachineConfigs = "MachineConfigs.config.talos.dev"_kj;
constexpr kj::StringPtr kMachineConfigId = "v1alpha1"_kj;

struct MachineConfigView {
  rpc::MachineType type = rpc::MachineType::UNKNOWN;
  kj::String authority;  // machine.ca, PEM; empty when the config has none
  pki::Pem authorityKey;
  kj::Vector<kj::String> certSans;
  NetworkConfig network;
};

// Of a document; InvalidArgument with its problems when it cannot be read.
MachineConfigView viewMachineConfig(kj::StringPtr document);

// Of the resource config/MachineConfigs/v1alpha1; none when there is none yet.
kj::Maybe<MachineConfigView> storedMachineConfig(Store& store);

}  // namespace talos::machined
