#include "machined/config/controllers/trusted-roots-controller.h"

#include "common/base/error.h"
#include "machined/config/controllers/machine-config-reader.h"

namespace talos::machined {
namespace {

kj::Promise<kj::Vector<kj::String>> makeBundle(UvLoop& uv, TrustedBundle& bundle,
                                               kj::Vector<UserFile> files) {
  return uv.blocking([&bundle, change = bundle.nextChange(), files = kj::mv(files)]() {
    return bundle.apply(change, files);
  });
}

}  // namespace

kj::Array<Controller::Input> TrustedRootsController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
}

kj::Promise<void> TrustedRootsController::reconcile(Store& store) {
  KJ_IF_MAYBE (b, bundle) {
    if (!b->begun()) return kj::READY_NOW;
    KJ_IF_MAYBE (files, read(store)) {
      return makeBundle(uv, *b, kj::mv(*files)).then([](kj::Vector<kj::String>&& problems) {
        if (!problems.empty()) fail(ErrorKind::kFailedPrecondition, kj::strArray(problems, "\n"));
      });
    }
  }
  return kj::READY_NOW;
}

kj::Own<Controller> trustedRootsController(ControllerDependencies& deps) {
  return kj::heap<TrustedRootsController>(
      deps.uv, deps.trustedBundle,
      [&config = deps.config](Store& store) { return config.tryMachine(store).map(userFiles); });
}

kj::Promise<kj::Array<kj::String>> applyTrustedRoots(ControllerDependencies& deps, Store& store) {
  KJ_IF_MAYBE (bundle, deps.trustedBundle) {
    if (bundle->begun()) {
      kj::Vector<UserFile> files;
      KJ_IF_MAYBE (machine, deps.config.tryMachine(store)) files = userFiles(*machine);
      auto problems = co_await makeBundle(deps.uv, *bundle, kj::mv(files));
      co_return problems.releaseAsArray();
    }
  }
  fail(ErrorKind::kUnavailable, "the boot has not written the files of the config yet");
}

}  // namespace talos::machined
