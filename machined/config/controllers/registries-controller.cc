#include "machined/config/controllers/registries-controller.h"

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "common/base/node-messages.h"
#include "common/image-cache/cache-layout.h"
#include "common/memory/zeroize.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "rpc/inventory-resources.capnp.h"

namespace talos::machined {

kj::Array<Controller::Input> RegistriesController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId),
                 input<rpc::ImageCacheConfigSpec>(imagecache::kConfigId));
}

kj::Promise<void> RegistriesController::reconcile(Store& store) {
  KJ_IF_MAYBE (rendered, render(store)) return write(kj::mv(*rendered));
  return kj::READY_NOW;
}

kj::Promise<void> RegistriesController::write(Rendered rendered) {
  KJ_DEFER(for (auto& part : rendered.parts) zeroize(part));
  kj::Maybe<kj::String> merged;
  kj::Maybe<kj::Exception> failure;
  if (!rendered.parts.empty()) {
    co_await kj::evalNow([&]() { return merge(systemPart(rendered.files), rendered.parts); })
        .then([&merged](kj::String&& text) { merged = kj::mv(text); },
              [&failure](kj::Exception&& e) { failure = kj::mv(e); });
    addContainerdParts(rendered.files, rendered.parts, kj::mv(merged));
  }
  co_await uv.blocking([folder = kj::str(folder), files = kj::mv(rendered.files)]() {
    writeRegistryFiles(folder, files);
  });
  KJ_IF_MAYBE (e, failure) {
    fail(kindOf(*e),
         kj::str(messages::kNotInEffect, kContainerdPart, " of machine.files: ", messageOf(*e)));
  }
}

namespace {

// Without a cache containerd would report, for an image that it cannot pull, that nothing answers
// there.
CachePlace cacheOf(Store& store) {
  KJ_IF_MAYBE (cache, store.tryGet<rpc::ImageCacheConfigSpec>(imagecache::kConfigId)) {
    if (cache->getRoots().size() > 0) return CachePlace::kHere;
  }
  return CachePlace::kNone;
}

}  // namespace

kj::Own<Controller> registriesController(ControllerDependencies& deps) {
  return kj::heap<RegistriesController>(
      deps.uv,
      [&config = deps.config](Store& store) {
        return config.tryMachine(store).map([&](config::Machine::Reader machine) {
          return RegistriesController::Rendered{
              registryFiles(machine.getRegistries(), kCriFolder, ownOomScores(),
                            machine.getBaseRuntimeSpec(), cacheOf(store)),
              containerdParts(machine)};
        });
      },
      [&deps](kj::StringPtr system, kj::ArrayPtr<const kj::String> parts) {
        return deps.mergeContainerd(system, parts);
      });
}

}  // namespace talos::machined
