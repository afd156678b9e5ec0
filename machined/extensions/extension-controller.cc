#include "machined/extensions/extension-controller.h"

#include "common/base/lines.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/feature-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kDocumentKind = "ExtensionServiceConfig"_kj;

}  // namespace

kj::Array<Controller::Input> ExtensionController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
}

kj::Array<kj::StringPtr> ExtensionController::outputs() const {
  return typeNames<rpc::ExtensionStatusSpec, rpc::ExtensionServiceConfigSpec,
                   rpc::ExtensionServiceConfigStatusSpec>();
}

kj::Promise<void> ExtensionController::reconcile(Store& store) {
  Outputs<rpc::ExtensionStatusSpec> statuses(name());
  for (auto i : kj::indices(deps.image.layers())) {
    auto metadata = deps.image.layers()[i].getMetadata();
    auto status = statuses.add(kj::str(i));
    status.setName(metadata.getName());
    status.setVersion(metadata.getVersion());
  }
  statuses.apply(store);
  kj::Vector<ExtensionConfig> configs;
  KJ_IF_MAYBE (known, deps.config.document(store)) {
    // Most configs have no such document, and no process is started for them.
    if (containsText(known->bytes(), kDocumentKind)) {
      configs = co_await deps.read(known->bytes());
    }
  } else {
    co_return;
  }
  Outputs<rpc::ExtensionServiceConfigSpec> documents(name());
  Outputs<rpc::ExtensionServiceConfigStatusSpec> given(name());
  for (auto& config : configs) {
    documents.add(config.name);
    if (deps.services.has(config.name)) given.add(config.name);
  }
  co_await deps.services.configure(kj::mv(configs));
  documents.apply(store);
  given.apply(store);
}

}  // namespace talos::machined
