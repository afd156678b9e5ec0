#include "machined/disk/encryption/luks-header-guard.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "machined/disk/encryption/sealed-keys.h"

namespace talos::machined {

kj::Promise<kj::Maybe<kj::String>> HeaderGuard::check(const VolumeSettings& settings,
                                                      IfEmpty ifEmpty) {
  if (file == nullptr) co_return nullptr;
  auto& backup = KJ_ASSERT_NONNULL(file);
  auto found = co_await luks.inspect(device);
  bool emptied = found.content == Content::EMPTY;
  if (emptied && ifEmpty == IfEmpty::kIsNew) {
    // Its formatting is a change; the backup with the keys of the previous volume is removed.
    co_await luks.forget(backup);
    co_return nullptr;
  }
  switch (co_await luks.compare(device, backup)) {
    case Comparison::SAME:
      co_return nullptr;
    case Comparison::NONE:
      missing = true;
      co_return nullptr;
    case Comparison::DAMAGED:
      if (emptied) co_return nullptr;  // the caller refuses it
      missing = true;
      co_return kj::str("the backup of the LUKS2 header of ", device, ", ", backup,
                        ", is damaged, so this node cannot verify that header; a new "
                        "backup is made of it");
    case Comparison::CHANGING:
      marked = true;
      if (found.content == Content::LUKS) co_return nullptr;
      break;
    case Comparison::OTHER:
      break;
  }
  if (hasSealedKey(settings)) {
    auto unsealed = co_await unsealKeys(luks, co_await luks.inspect(backup), settings);
    auto restoring = kj::evalNow([&]() { return luks.restore(device, backup, unsealed.settings); });
    co_await restoring.catch_([&](kj::Exception&& e) {
      // The key that proves the backup's origin may be with a server that is away.
      if (!hasKmsKey(settings) || unsealed.problems.empty()) kj::throwFatalException(kj::mv(e));
      fail(ErrorKind::kUnavailable,
           kj::str(messageOf(e), "; ", kj::strArray(unsealed.problems, "; ")));
    });
  } else {
    co_await luks.restore(device, backup, settings);
  }
  missing = true;  // no mark is left
  auto what = found.content == Content::LUKS
                  ? "was not the one that this node wrote, and not used"_kj
              : emptied ? "was erased"_kj
                        : "was damaged"_kj;
  co_return kj::str("the LUKS2 header of ", device, " ", what,
                    "; it was replaced by its backup, and is kept as ", backup, ".refused");
}

kj::Promise<void> HeaderGuard::beforeChange() {
  if (marked || file == nullptr) co_return;
  co_await luks.mark(device, KJ_ASSERT_NONNULL(file));
  marked = true;
}

kj::Promise<void> HeaderGuard::backupMeanwhile() {
  if (!marked) co_return;
  co_await luks.backup(device, KJ_ASSERT_NONNULL(file), Change::kGoesOn);
}

kj::Promise<void> HeaderGuard::finish() {
  if (file == nullptr || (!marked && !missing)) co_return;
  co_await luks.backup(device, KJ_ASSERT_NONNULL(file), Change::kIsOver);
  marked = missing = false;
}

kj::Promise<void> HeaderGuard::format(kj::StringPtr device, const VolumeSettings& settings) {
  co_await beforeChange();
  co_await luks.format(device, settings);
}

kj::Promise<void> HeaderGuard::add(kj::StringPtr device, At key, At by) {
  co_await beforeChange();
  co_await luks.add(device, key, by);
}

kj::Promise<void> HeaderGuard::remove(kj::StringPtr device, unsigned slot, At keeping) {
  co_await beforeChange();
  co_await luks.remove(device, slot, keeping);
}

kj::Promise<void> HeaderGuard::settle(kj::StringPtr device) {
  co_await beforeChange();
  co_await luks.settle(device);
}

}  // namespace talos::machined
