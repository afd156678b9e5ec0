// The Configuration capability (rpc/configuration.capnp): what comes over the wire, handed to the
// keeper. There is one for callers with a certificate and one for those without, who are served
// only as long as the machine has no config.
#pragma once

#include "machined/config/keeper.h"
#include "rpc/configuration.capnp.h"

namespace talos::machined {

class ConfigurationServer final : public rpc::Configuration::Server {
 public:
  // `bootId` is this boot's.
  ConfigurationServer(ConfigKeeper& keeper, MachineConfigReader& reader, Store& store, UvLoop& uv,
                      ConfigKeeper::Caller caller, kj::String bootId);

  kj::Promise<void> apply(ApplyContext context) override;
  kj::Promise<void> generate(GenerateContext context) override;

 private:
  ConfigKeeper& keeper;
  MachineConfigReader& reader;
  Store& store;
  UvLoop& uv;
  ConfigKeeper::Caller caller;
  kj::String bootId;
};

}  // namespace talos::machined
