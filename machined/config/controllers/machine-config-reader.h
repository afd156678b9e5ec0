// Reads the machine config of the resource config/MachineConfigs/v1alpha1.
#pragma once

#include <kj/function.h>

#include "machined/confined/parser-client/known-config.h"
#include "machined/resources/store.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kMachineConfigId = "v1alpha1"_kj;

// Returns nullptr while there is no valid config. The reader is valid until the event loop runs
// again.
using ReadConfig = kj::Function<kj::Maybe<config::Config::Reader>(Store&)>;

rpc::MachineType machineTypeOf(config::Config::Reader config);
kj::StringPtr roleName(config::ApiRole role);  // os:admin; empty for an unknown role

// Holds the readable form of the published config. The brain does not parse documents: a publisher
// has the document read (machined/confined/parser-client/foreign-bytes.h) and calls know() before
// it publishes; a restarted brain does that for the published document before any reader runs. The
// readable form is not in the resource: a second copy of every secret would be in the store and its
// journal, and would go to every reader of the resource.
class MachineConfigReader {
 public:
  // Takes the document that is published, or will be next.
  void know(KnownConfig document);
  // Returns nullptr if no config is published. Valid until the next know().
  kj::Maybe<const KnownConfig&> document(Store& store);
  // Returns the same without the bytes.
  kj::Maybe<config::Config::Reader> tryConfig(Store& store);
  kj::Maybe<config::Machine::Reader> tryMachine(Store& store);
  config::Machine::Reader machine(Store& store);  // throws NotFound

 private:
  // The published document, and the one that is about to be published.
  kj::Maybe<KnownConfig> current, next;

  static bool is(const kj::Maybe<KnownConfig>& known, kj::ArrayPtr<const char> text);
};

}  // namespace talos::machined
