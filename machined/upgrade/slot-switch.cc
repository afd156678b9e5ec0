#include "machined/upgrade/slot-switch.h"

#include <kj/debug.h>

namespace talos::machined {

using install::otherThan;

kj::Promise<kj::String> SlotSwitch::write(const NewSystem& system) {
  auto running = KJ_ASSERT_NONNULL(deps.running);
  return slots.write(otherThan(running), system, deps.node.kernelArguments());
}

kj::Promise<void> SlotSwitch::arm(unsigned healthTimeoutS) {
  auto running = KJ_ASSERT_NONNULL(deps.running);
  return slots.choose(running, otherThan(running), healthTimeoutS);
}

kj::Promise<void> SlotSwitch::confirm() {
  return slots.choose(KJ_ASSERT_NONNULL(deps.running), nullptr, install::kHealthTimeoutS);
}

kj::Promise<void> SlotSwitch::revoke() {
  return confirm().catch_([this](kj::Exception&& e) {
    deps.node.announce(kj::str(
        "upgrade: the next start may be that of the other system, on trial: ", messageOf(e)));
  });
}

}  // namespace talos::machined
