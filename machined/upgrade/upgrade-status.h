// The status of an upgrade for users: the resource UpgradeStatuses/node, computed from the progress
// of this brain's work and from the newest record. A crash loses the progress together with the
// work.
#pragma once

#include <kj/common.h>
#include <kj/function.h>

#include "machined/upgrade/upgrade-lifecycle.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {

// An upgrade that waits, and the error of its last attempt.
struct AwaitedUpgrade {
  kj::String image, reason;
};

// The progress of this brain's work.
class UpgradeProgress {
 public:
  // Calls `changed` when the status is to be computed again.
  explicit UpgradeProgress(kj::Function<void()> changed) : changed(kj::mv(changed)) {}
  KJ_DISALLOW_COPY_AND_MOVE(UpgradeProgress);

  UpgradeActivity activity() const { return now; }
  bool isIdle() const { return now == UpgradeActivity::kIdle; }
  kj::StringPtr text() const { return line; }
  kj::StringPtr image() const { return fetched; }  // of kFetching

  // Changes the activity and drops the text. Shows nothing until the next change of the progress or
  // the record.
  void enter(UpgradeActivity next) {
    now = next;
    line = nullptr;
  }
  // Enters `next` and shows it. The returned object ends it: its destructor enters kIdle, unless
  // another activity has followed.
  [[nodiscard]] auto begin(UpgradeActivity next, kj::StringPtr image = nullptr) {
    enter(next);
    fetched = kj::str(image);
    changed();
    return kj::defer([this, next]() { end(next); });
  }
  // Shows `text` as the state of the work, unless another activity has followed `during`.
  void say(UpgradeActivity during, kj::StringPtr text) {
    if (now != during || line == text) return;
    line = kj::str(text);
    changed();
  }
  // Enters kIdle, unless another activity has followed `ended`. Shows nothing.
  void leave(UpgradeActivity ended) {
    if (now == ended) enter(UpgradeActivity::kIdle);
  }
  // Does the same, and shows it.
  void end(UpgradeActivity ended) {
    if (now != ended) return;
    leave(ended);
    changed();
  }

  void show() { changed(); }

  // An upgrade that waits is shown until an upgrade or a rollback begins.
  kj::Maybe<AwaitedUpgrade> awaited;

 private:
  kj::Function<void()> changed;
  UpgradeActivity now = UpgradeActivity::kIdle;
  kj::String fetched, line;
};

// Returns the name of the stage, which users and tools know.
kj::StringPtr stageName(const UpgradeProgress& progress, UpgradePhase phase, bool live = false);
// Returns what a staged upgrade waits for, and the error of the last reboot.
kj::String stagedReason(const UpgradeRecord& record);
// Fills all fields but those about the running system.
void fillStatus(rpc::UpgradeStatusSpec::Builder spec, const UpgradeProgress& progress,
                const kj::Maybe<UpgradeRecord>& record);

}  // namespace talos::machined
