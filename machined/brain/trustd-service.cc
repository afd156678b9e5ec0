#include "machined/brain/trustd-service.h"

#include <capnp/message.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "machined/services/service-table.h"

namespace talos::machined {

// Whether it has become wanted just now.
bool TrustdService::look() {
  if (wanted || world.store.tryGet<rpc::RootSecretSpec>("os") == nullptr) return false;
  wanted = true;
  return true;
}

kj::Promise<void> TrustdService::follow() {
  secretsChanged = world.store.onChange<rpc::RootSecretSpec>([this]() {
    if (!look()) return;
    loading = load().eagerlyEvaluate([this](kj::Exception&& e) {
      wanted = false;  // the next change tries again
      log::error("cannot start trustd", {{"error", messageOf(e)}});
    });
  });
  if (look()) return load();
  return kj::READY_NOW;
}

kj::Promise<void> TrustdService::load() {
  listening = co_await world.listen();
  world.supervisor.load(trustdService(listening.get(), world.lowLevel));
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  world.supervisor.fill("trustd", service);
  // One that a user stopped before machined was started again stays stopped.
  if (service.getState() == rpc::ServiceState::INITIALIZED) world.supervisor.start("trustd");
}

}  // namespace talos::machined
