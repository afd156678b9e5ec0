#include "machined/upgrade/image-admission.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "machined/upgrade/version-floor.h"

namespace talos::machined {
namespace {

constexpr auto kForceHint = "; nothing was written; use --force to install it all the same"_kj;

}  // namespace

kj::Promise<SlotSwitch::Facts> ImageAdmission::require(const VerifiedImage& image, bool isSigned) {
  auto facts = co_await deps.slots.factsOf(image.content);
  requireKnownKeys(image, facts);
  if (isSigned) {
    kj::String floor;
    co_await raiseFloor().then(
        [&](kj::String raised) { floor = kj::mv(raised); },
        [&](kj::Exception&& e) {
          fail(kindOf(e), kj::str(image.digest,
                                  ": cannot find out the oldest version that a signed image may "
                                  "have: ",
                                  messageOf(e), kForceHint));
        });
    KJ_IF_MAYBE (refusal, belowFloor(facts.version, floor)) {
      fail(ErrorKind::kFailedPrecondition, kj::str(image.digest, ": ", *refusal, kForceHint));
    }
  }
  co_return kj::mv(facts);
}

void ImageAdmission::requireKnownKeys(const VerifiedImage& image, const SlotSwitch::Facts& facts) {
  if (facts.configKeys.size() == 0) return;
  auto unknown = deps.node.configKeysNotIn(facts.configKeys);
  if (unknown.empty()) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str(image.digest, ": ", facts.version, " does not know ",
               unknown.size() == 1 ? "a key" : "keys",
               " of this node's config: ", kj::strArray(unknown, ", "), kForceHint));
}

kj::StringPtr ImageAdmission::runningVersion(const install::SlotsOnDisk& found) const {
  for (auto& system : found.systems) {
    if (system.slot == KJ_ASSERT_NONNULL(deps.running)) return system.version;
  }
  return deps.version;
}

kj::Promise<kj::String> ImageAdmission::raiseFloor(const install::SlotsOnDisk& found) {
  auto kept = (co_await deps.storage.readVersionFloor()).orDefault(kj::String());
  if (found.state.confirmed != KJ_ASSERT_NONNULL(deps.running)) co_return kj::mv(kept);
  auto floor = kj::str(raisedFloor(kept, runningVersion(found)));
  if (floor != kept) co_await deps.storage.writeVersionFloor(floor);
  co_return kj::mv(floor);
}

kj::Promise<kj::String> ImageAdmission::raiseFloor() {
  auto found = co_await deps.slots.look();
  co_return co_await raiseFloor(found);
}

}  // namespace talos::machined
