#include "machined/upgrade/ephemeral-wipe.h"

#include <kj/debug.h>

namespace talos::machined {

kj::Promise<void> EphemeralWipe::runIfDue(bool isOnTrial) {
  KJ_IF_MAYBE (r, records.record()) {
    if (!r->emptying && (!isOnTrial || !r->empty)) co_return;
  } else {
    co_return;
  }
  auto& places = KJ_REQUIRE_NONNULL(volumes);
  auto ephemeral = co_await places.ephemeral();
  co_await records.wiping(true);
  co_await places.empty(kj::str(ephemeral));
  co_await records.wiping(false);
  node.announce(
      kj::str("EPHEMERAL: ", ephemeral, " was emptied, as the upgrade was without --preserve"));
}

}  // namespace talos::machined
