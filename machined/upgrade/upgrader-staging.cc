// The Upgrader's staged upgrades: a system that is written now and tried at the next reboot.
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "machined/upgrade/upgrader.h"

namespace talos::machined {
namespace {

using Stage = UpgradeRecord::Stage;
using install::nameOf;

// Limit of a reboot's wait for an etcd cluster that the node is to leave.
constexpr auto kStagedTimeout = 2 * kj::MINUTES;

}  // namespace

// Ends writeSlot() without a choice for the boot loader.
kj::Promise<void> Upgrader::stage() {
  auto& r = KJ_ASSERT_NONNULL(record);
  r.stage = Stage::WRITTEN;
  r.staged = true;
  r.forced = KJ_ASSERT_NONNULL(wanted).force;
  return keep();
}

kj::String Upgrader::stagedReason() const {
  auto& r = KJ_ASSERT_NONNULL(record);
  return kj::str(r.toVersion, ", tried at the next reboot", r.reason.size() > 0 ? "; " : "",
                 r.reason);
}

kj::Promise<void> Upgrader::tryStaged() {
  KJ_IF_MAYBE (r, record) {
    if (!resumed || !r->isStaged()) co_return;
  } else {
    co_return;
  }
  rebooting = true;
  kj::Maybe<kj::Exception> wrong;
  co_await within(
      deps.timer, kStagedTimeout, chooseStaged(),
      kj::str("not ready to reboot into it within ", kStagedTimeout / kj::SECONDS, " s"))
      .catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
  auto& r = KJ_ASSERT_NONNULL(record);
  KJ_IF_MAYBE (e, wrong) {
    co_await revoke();
    r.reason = kj::str("the last reboot did not try it: ", messageOf(*e));
    deps.node.announce(kj::str("upgrade: slot ", r.target(), " stays staged; ", r.reason));
    co_return co_await saveOrReport();
  }
  deps.node.announce(kj::str("upgrade: rebooting into slot ", r.target(), ", which was staged"));
  publish();
}

// The duties recorded when the system was staged count if the current ones cannot be recorded.
kj::Promise<void> Upgrader::chooseStaged() {
  auto& r = KJ_ASSERT_NONNULL(record);
  co_await recordDuties(r.began).catch_([this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
  if (r.empty) co_await deps.clusters.leave(false, r.forced);
  co_await choose(r.from, r.to);
}

// If STATE cannot be written, the system stays staged, so that a repeated call has the same result.
kj::Promise<kj::Maybe<kj::String>> Upgrader::withdraw() {
  auto& r = KJ_ASSERT_NONNULL(record);
  auto lastReason = kj::mv(r.reason);
  r.stage = Stage::FAILED;
  r.reason =
      kj::str(r.toVersion, " was staged in slot ", nameOf(r.to), ", and withdrawn by a rollback");
  auto target = r.target();
  kj::Maybe<kj::Exception> wrong;
  rebooting = true;  // no other upgrade begins meanwhile
  co_await keep().catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
  rebooting = false;
  KJ_IF_MAYBE (e, wrong) {
    r.stage = Stage::WRITTEN;
    r.reason = kj::mv(lastReason);
    publish();
    kj::throwFatalException(kj::mv(*e));
  }
  deps.node.announce(kj::str("upgrade: ", r.reason));
  publish();
  co_return kj::mv(target);
}

}  // namespace talos::machined
