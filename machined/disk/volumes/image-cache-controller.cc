#include "machined/disk/volumes/image-cache-controller.h"

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/within.h"
#include "common/image-cache/cache-layout.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr auto kMediumSettles = 1 * kj::SECONDS;
constexpr kj::StringPtr kRegistryService = "registryd"_kj;

bool isServing(Store& store) {
  KJ_IF_MAYBE (service, store.tryGet<rpc::ServiceSpec>(kRegistryService))
    return service->getRunning() && service->getHealthy();
  return false;
}

}  // namespace

bool mayHaveCache(const Volume& volume) {
  if (!volume.contains(FileSystem::kIso9660) && !volume.contains(FileSystem::kVfat)) return false;
  return volume.label() == "TALOS" || volume.label().startsWith("TALOS_");
}

ImageCacheController::ImageCacheController(Dependencies given)
    : WokenController(given.timer, kMediumSettles,
                      [this]() { return deps.next().exclusiveJoin(again.wait()); }),
      deps(kj::mv(given)) {}

kj::Array<Controller::Input> ImageCacheController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>("v1alpha1"),
                 input<rpc::ServiceSpec>(kRegistryService));
}
kj::Array<kj::StringPtr> ImageCacheController::outputs() const {
  return typeNames<rpc::ImageCacheConfigSpec>();
}

kj::Promise<void> ImageCacheController::reconcile(Store& store) {
  auto publish = [&](kj::StringPtr status, kj::ArrayPtr<const kj::StringPtr> roots) {
    Outputs<rpc::ImageCacheConfigSpec> outputs(name());
    auto spec = outputs.add(imagecache::kConfigId);
    spec.setStatus(status);
    spec.setCopyStatus("skipped");
    fillTexts(spec.initRoots(static_cast<unsigned>(roots.size())), roots);
    outputs.apply(store);
  };
  auto enabled = deps.enabled(store);
  bool published = store.tryGet<rpc::ImageCacheConfigSpec>(imagecache::kConfigId) != nullptr;
  if (enabled == nullptr) {  // what the predecessor of a restarted brain found stays
    if (!published) publish("disabled", nullptr);
    co_return;
  }
  if (!KJ_ASSERT_NONNULL(enabled)) {
    publish("disabled", nullptr);
    co_return co_await deps.unmount();
  }
  if (!published) publish("preparing", nullptr);
  auto roots = co_await find();
  if (roots.empty()) {
    sayOnce(kj::str(
        "machine.features.imageCache: no medium with a cache of images; attach one with the label "
        "TALOS and the folder imagecache",
        unread));
    publish("disabled", nullptr);
  } else {
    sayOnce(kj::str("images come from ", kj::strArray(roots, " and "), " before registries"));
    publish(isServing(store) ? "ready" : "preparing", roots);
  }
}

kj::Promise<kj::Vector<kj::StringPtr>> ImageCacheController::find() {
  kj::Vector<kj::StringPtr> roots;
  unread = kj::String();
  for (auto root : imagecache::kCacheRoots) {
    kj::Maybe<kj::String> problem;
    auto work = [this, root](kj::Own<Attempt>) { return deps.hasCache(root); };
    bool found = co_await limited(kj::str("reading ", root), work).catch_([&](kj::Exception&& e) {
      problem = messageOf(e);
      return false;
    });
    KJ_IF_MAYBE (text, problem) unread = kj::str("; ", *text);
    if (found) roots.add(root);
  }
  bool hasMedium = !roots.empty() && roots.back() == imagecache::kMediumRoot;
  KJ_IF_MAYBE (look, deps.look) {
    if (hasMedium) co_return kj::mv(roots);
    auto volumes = co_await (*look)();
    for (auto& volume : volumes) {
      if (!mayHaveCache(volume)) continue;
      if (co_await isCache(volume)) {
        roots.add(imagecache::kMediumRoot);
        break;
      }
    }
  }
  co_return kj::mv(roots);
}

// Mounts the volume, and leaves it mounted if it has a cache. A medium that cannot be read does not
// keep others from being looked at.
kj::Promise<bool> ImageCacheController::isCache(const Volume& volume) {
  co_await deps.unmount();
  kj::Maybe<kj::String> problem;
  Work work = [this, &volume](kj::Own<Attempt> attempt) {
    return mountAndLook(deps.open(volume), kj::mv(attempt));
  };
  bool found = co_await limited(kj::str("mounting ", volume.device.node()), kj::mv(work))
                   .catch_([&](kj::Exception&& e) {
                     problem = messageOf(e);
                     return false;
                   });
  KJ_IF_MAYBE (text, problem) {
    unread = kj::str("; the medium ", volume.label(), " cannot be read: ", *text);
  }
  if (!found) co_await deps.unmount();
  co_return found;
}

// A mount that comes late is dropped, because another medium may be mounted meanwhile.
kj::Promise<bool> ImageCacheController::mountAndLook(kj::Promise<kj::AutoCloseFd> opening,
                                                     kj::Own<Attempt> attempt) {
  auto mount = co_await opening;
  if (attempt->late) co_return false;
  co_await deps.attach(kj::mv(mount));
  co_return co_await deps.hasCache(imagecache::kMediumRoot);
}

kj::Promise<bool> ImageCacheController::limited(kj::String what, Work work) {
  std::string key = what.cStr();
  if (called.contains(key)) {
    fail(ErrorKind::kUnavailable, kj::str(what, " has timed out, and has not ended yet"));
  }
  called.insert(key);
  auto attempt = kj::refcounted<Attempt>();
  KJ_DEFER(attempt->late = true);
  auto paf = kj::newPromiseAndFulfiller<bool>();
  auto& result = *paf.fulfiller;
  calls.add(work(kj::addRef(*attempt))
                .then(
                    [this, key, &result, &attempt = *attempt](bool found) {
                      end(key, attempt);
                      result.fulfill(kj::mv(found));
                    },
                    [this, key, &result, &attempt = *attempt](kj::Exception&& e) {
                      end(key, attempt);
                      result.reject(kj::mv(e));
                    })
                .attach(kj::mv(paf.fulfiller), kj::addRef(*attempt)));
  co_return co_await within(deps.timer, kMediumTimeout, kj::mv(paf.promise),
                            kj::str(what, " timed out after ", kMediumTimeout / kj::SECONDS, " s"));
}

void ImageCacheController::end(const std::string& what, const Attempt& attempt) {
  called.erase(what);
  if (attempt.late) again.raise();
}

// A call reports its error by its result.
void ImageCacheController::taskFailed(kj::Exception&& exception) {
  KJ_FAIL_ASSERT("a call to a medium has failed without a result", exception);
}

void ImageCacheController::sayOnce(kj::String line) {
  if (line == said) return;
  deps.say(line);
  said = kj::mv(line);
}

}  // namespace talos::machined
