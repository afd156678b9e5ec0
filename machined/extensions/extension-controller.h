// runtime.ExtensionController: publishes the system extensions of the image (ExtensionStatuses),
// and for each document ExtensionServiceConfig of the config that it exists and that its service
// has it (ExtensionServiceConfigs and their statuses; their contents are secrets and stay in the
// config). Gives the documents to the services.
//
// Writes nothing else; after a crash the next run publishes the same.
#pragma once

#include "machined/config/controllers/machine-config-reader.h"
#include "machined/extensions/extension-services.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class ExtensionController final : public Controller {
 public:
  struct Dependencies {
    MachineConfigReader& config;
    ImageExtensions& image;
    ExtensionServices& services;
    kj::Function<kj::Promise<kj::Vector<ExtensionConfig>>(kj::ArrayPtr<const char> document)> read;
  };
  explicit ExtensionController(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::StringPtr name() const override { return "runtime.ExtensionController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Dependencies deps;
};

}  // namespace talos::machined
