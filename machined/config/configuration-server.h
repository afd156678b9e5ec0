// Serves the Configuration capability (rpc/configuration.capnp) with the config manager. One
// instance serves callers with a certificate, the other callers without, but only while the machine
// has no config.
#pragma once

#include <kj/timer.h>

#include "machined/config/config-manager.h"
#include "machined/config/network/network-controller.h"
#include "rpc/configuration.capnp.h"
#include "rpc/local.capnp.h"

namespace talos::machined {

class ConfigurationServer final : public rpc::Configuration::Server {
 public:
  // The changes of the network that a config would make.
  struct NetworkPreview {
    kj::Vector<kj::String> steps, problems;
  };
  using PreviewNetwork = kj::Function<kj::Promise<NetworkPreview>(const KnownConfig&)>;
  struct Effects {
    // Resolves with the parts of these changes, which are in the running config, that are not in
    // effect, each with the cause.
    kj::Function<kj::Promise<kj::Array<kj::String>>(kj::ArrayPtr<const config::Change>)> missing;
    // Returns the parts of these changes, which the config has, that would not be in effect, as far
    // as the node knows before it applies them.
    kj::Function<kj::Array<kj::String>(kj::ArrayPtr<const config::Change>, const KnownConfig&)>
        foreseen;
    // Returns what the volumes of a config would do to disks, and what they would wait for.
    kj::Function<kj::Promise<kj::Vector<kj::String>>(const KnownConfig&)> volumePlan =
        [](const KnownConfig&) { return kj::Vector<kj::String>(); };
  };
  struct Manifest {
    kj::String id, objects;
  };
  // Renders the manifests of a config; pure.
  using RenderManifests = kj::Function<kj::Vector<Manifest>(const KnownConfig&)>;
  // A part of the Kubernetes control plane as a config wants it: another content restarts it.
  struct Part {
    kj::String name;
    kj::Array<kj::byte> content;
  };
  // Returns the parts that this node runs with a config; pure.
  using RunningParts = kj::Function<kj::Vector<Part>(const KnownConfig&)>;
  // `bootId` is the ID of this boot. `preview` rejects if the changes are unknown.
  ConfigurationServer(ConfigManager& manager, MachineConfigReader& reader, Store& store,
                      ForeignBytes& foreign, ConfigManager::Caller caller, kj::String bootId,
                      PreviewNetwork preview, Effects effects, RenderManifests manifests,
                      RunningParts parts);

  kj::Promise<void> apply(ApplyContext context) override;
  kj::Promise<void> generate(GenerateContext context) override;

 private:
  ConfigManager& manager;
  MachineConfigReader& reader;
  Store& store;
  ForeignBytes& foreign;
  ConfigManager::Caller caller;
  kj::String bootId;
  PreviewNetwork preview;
  Effects effects;
  RenderManifests manifests;
  RunningParts parts;
  unsigned generating = 0;

  kj::Promise<kj::Vector<kj::String>> volumePlan(ConfigManager::Outcome& outcome);
  kj::Promise<kj::Array<kj::String>> notInEffect(const ConfigManager::Outcome& outcome);
  kj::Vector<Part> runningParts();
  kj::Vector<kj::String> restarted(kj::ArrayPtr<const Part> before,
                                   const ConfigManager::Outcome& outcome);
};

// Returns the network changes of a config: networkd plans them for its specs, and changes nothing.
// Throws Unavailable if networkd does not answer within 5 s.
kj::Promise<ConfigurationServer::NetworkPreview> previewNetwork(NetworkSpecs specs,
                                                                rpc::Networkd::Client networkd,
                                                                kj::Timer& timer);

}  // namespace talos::machined
