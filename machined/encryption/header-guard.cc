#include "machined/encryption/header-guard.h"

#include "common/base/error.h"

namespace talos::machined {

kj::Promise<void> HeaderGuard::check(kj::StringPtr label, SayLine& say) {
  if (file == nullptr) co_return;
  auto& backup = KJ_ASSERT_NONNULL(file);
  auto found = co_await luks.inspect(device);
  if (found.content == Content::kEmpty) co_return;  // it is formatted, and that is a change
  switch (co_await luks.compare(device, backup)) {
    case Comparison::kSame:
      co_return;
    case Comparison::kNone:
      missing = true;
      co_return;
    case Comparison::kChanging:
      if (found.content == Content::kLuks) {
        marked = true;
        co_return;
      }
      break;
    case Comparison::kOther:
      break;
  }
  co_await luks.restore(device, backup);
  missing = true;  // and no mark stays
  auto what = found.content == Content::kLuks
                  ? "is not the one that this node wrote, and was not used"_kj
                  : "was damaged"_kj;
  say(kj::str("warning: ", label, ": the LUKS2 header of ", device, " ", what,
              "; it was replaced by the backup, and is kept as ", backup, ".refused"));
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

kj::Promise<void> HeaderGuard::finish(kj::StringPtr label, SayLine& say) {
  if (file == nullptr || (!marked && !missing)) co_return;
  auto work = [&]() { return luks.backup(device, KJ_ASSERT_NONNULL(file), Change::kIsOver); };
  co_await kj::evalNow(work).then(
      [&]() { marked = missing = false; },
      [&](kj::Exception&& e) {
        say(kj::str("warning: ", label, ": there is no new backup of the header of ", device, ": ",
                    messageOf(e)));
      });
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
