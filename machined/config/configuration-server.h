// The Configuration capability (rpc/configuration.capnp): what comes over the wire, handed to the
// keeper. There is one for callers with a certificate and one for those without, who are served
// only as long as the machine has no config.
#pragma once

#include "machined/config/config-manager.h"
#include "rpc/configuration.capnp.h"

namespace talos::machined {

class ConfigurationServer final : public rpc::Configuration::Server {
 public:
  // What a config would do to the network; rejects when nobody knows.
  struct NetworkPreview {
    kj::Vector<kj::String> steps, problems;
  };
  using PreviewNetwork = kj::Function<kj::Promise<NetworkPreview>(const KnownConfig&)>;
  // `bootId` is this boot's.
  ConfigurationServer(ConfigKeeper& keeper, MachineConfigReader& reader, Store& store,
                      ForeignBytes& foreign, ConfigKeeper::Caller caller, kj::String bootId,
                      PreviewNetwork preview);

  kj::Promise<void> apply(ApplyContext context) override;
  kj::Promise<void> generate(GenerateContext context) override;

 private:
  ConfigKeeper& keeper;
  MachineConfigReader& reader;
  Store& store;
  ForeignBytes& foreign;
  ConfigKeeper::Caller caller;
  kj::String bootId;
  PreviewNetwork preview;
  unsigned generating = 0;
};

}  // namespace talos::machined
