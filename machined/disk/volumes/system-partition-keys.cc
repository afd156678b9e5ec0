// The keys of STATE and EPHEMERAL while they are mounted: set to the config's keys, changed with
// the config, and reported.
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/disk/volume-labels.h"
#include "machined/disk/volumes/system-partitions.h"

namespace talos::machined {
namespace {

// Without STATE there is no place to stage a config.
kj::String howToFormat(kj::StringPtr label) {
  if (isVolumeLabel(label)) {
    return kj::str("give the volume another name, or remove its document and wipe the partition");
  }
  if (label == kStateName) return kj::str("reset STATE, then apply the config in maintenance mode");
  return kj::str("stage the config, then reset ", label);
}

}  // namespace

// Determined without deriving a key, which takes a second at each boot.
bool SystemPartitions::isRight(const Luks::Found& found, const VolumeSettings& settings) const {
  auto& keys = settings.keys;
  auto& by = KJ_ASSERT_NONNULL(openedBy);
  if (keys.size() != 1 || keys[0].slot != by.slot) return false;
  if (by.settings == nullptr && keys[0].kind != KeyKind::kNodeId) return false;
  return found.slots.size() == 1 && found.slots[0] == by.slot;
}

kj::Promise<bool> SystemPartitions::putRightIfOpened(kj::String device, const Luks::Found& found,
                                                     const VolumeSettings& settings,
                                                     PersistKeys persist) {
  KJ_IF_MAYBE (by, openedBy) {
    KJ_IF_MAYBE (opener, by->settings) {
      if (!sameKeys(*opener, settings)) {
        if (!hasMachineKey(settings)) {
          deps.say(kj::str("warning: ", settings.label,
                           ": it was opened with the keys of another config than the one that is ",
                           "stored on it, so its keys stay as they are; give both the same keys"));
          co_return false;
        }
        auto keys = handOver(*opener, settings);
        co_await changeKeys(deps.luks, kj::mv(device), keys.before, keys.after,
                            KeyChangeExtent::kWhole, kj::mv(persist));
        co_return true;
      }
    }
    if (isRight(found, settings)) {
      co_await persist();
      co_return false;
    }
    co_await putKeysRight(deps.luks, kj::mv(device), settings, kj::mv(persist));
    co_return true;
  }
  co_return false;
}

void SystemPartitions::reportKeys(kj::StringPtr label, Luks::Found found,
                                  const VolumeSettings& settings) {
  auto text = keysText(found.slots, settings);
  deps.reports.reportKeys(label, KeysReport{kj::mv(found.slots), kj::mv(text)});
}

kj::Promise<void> SystemPartitions::inspectAndReportKeys(kj::StringPtr label, kj::String device,
                                                         const VolumeSettings& settings) {
  auto looking = kj::evalNow([&]() { return deps.luks.inspect(device); });
  co_await looking.then(
      [&](Luks::Found found) { reportKeys(label, kj::mv(found), settings); },
      [&](kj::Exception&& e) {
        deps.say(kj::str("warning: ", label,
                         ": which keys its header has is not known: ", messageOf(e)));
      });
}

kj::Promise<void> SystemPartitions::putRight(kj::String node, kj::StringPtr label, Encryption how,
                                             EncryptionFrom from) {
  auto warn = [this, label = kj::str(label)](kj::StringPtr what) {
    deps.say(kj::str("warning: ", label, ": ", what));
  };
  auto partition = partitionOfMapping(node);
  if (partition == nullptr && how != nullptr && from == EncryptionFrom::kVolumeConfig) {
    deps.say(kj::str("warning: ", notEncryptedText(from, label)));
  } else if (partition == nullptr && how != nullptr) {
    warn(kj::str(node, " is not encrypted, although machine.systemDiskEncryption wants it to be; ",
                 "reset ", label, " to encrypt it"));
  }
  if (partition != nullptr && how == nullptr) {
    warn(kj::str(node, " is encrypted, although the config has no machine.systemDiskEncryption ",
                 "for it; reset ", label, " to have it plain"));
  }
  if (partition == nullptr || how == nullptr) co_return;
  auto device = kj::str("/dev/", KJ_ASSERT_NONNULL(partition));
  auto work = [&]() -> kj::Promise<void> {
    auto settings = settingsOf(KJ_ASSERT_NONNULL(how), label, deps.uuid());
    auto found = co_await deps.luks.inspect(device);
    auto persist = [&]() { return storeStateKeys(label, KJ_ASSERT_NONNULL(how)); };
    bool changed = co_await putRightIfOpened(kj::str(device), found, settings, persist);
    if (changed) co_return co_await inspectAndReportKeys(label, kj::mv(device), settings);
    reportKeys(label, kj::mv(found), settings);
  };
  co_await kj::evalNow(work).catch_([&](kj::Exception&& e) { warn(messageOf(e)); });
  bool hasKeys = false;
  KJ_IF_MAYBE (by, openedBy) hasKeys = by->settings != nullptr;
  if (hasKeys) openedBy = nullptr;  // zeroed
}

void SystemPartitions::check(kj::StringPtr label, Encryption how) {
  KJ_IF_MAYBE (wanted, how) settingsOf(*wanted, label, deps.uuid());
}

void SystemPartitions::checkChange(kj::StringPtr node, kj::StringPtr label, Encryption before,
                                   Encryption after) {
  bool encrypted = partitionOfMapping(node) != nullptr, wanted = after != nullptr;
  if (encrypted && wanted && before != nullptr) {
    auto from = settingsBefore(KJ_ASSERT_NONNULL(before), label, deps.uuid());
    auto to = settingsOf(KJ_ASSERT_NONNULL(after), label, deps.uuid());
    if (from.keySize == to.keySize && from.sectorSize == to.sectorSize) return;
    fail(ErrorKind::kFailedPrecondition, kj::str("keySize and blockSize take effect when ", label,
                                                 " is formatted; ", howToFormat(label)));
  }
  if (encrypted == wanted || (before != nullptr) == wanted) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str(label, " is ", encrypted ? "" : "not ",
               "encrypted, which changes only with an empty partition; ", howToFormat(label)));
}

class SystemPartitions::Turn {
 public:
  static Turns& turnsOf(SystemPartitions& all, kj::StringPtr label) {
    return *all.turns.findOrCreate(label, [&]() {
      return kj::TreeMap<kj::String, kj::Own<Turns>>::Entry{kj::str(label), kj::heap<Turns>()};
    });
  }
  Turn(SystemPartitions& all, kj::StringPtr label) : turns(turnsOf(all, label)) {
    ++turns.count;
    auto& last = turns.last;
    auto paf = kj::newPromiseAndFulfiller<void>();
    before = last.addBranch();
    // A change that is dropped before its turn does not end its predecessor's turn.
    last = kj::joinPromises(kj::arr(last.addBranch(), kj::mv(paf.promise))).fork();
    done = kj::mv(paf.fulfiller);
  }
  ~Turn() noexcept(false) {
    --turns.count;
    done->fulfill();
  }
  KJ_DISALLOW_COPY_AND_MOVE(Turn);

  kj::Promise<void> before = nullptr;

 private:
  Turns& turns;
  kj::Own<kj::PromiseFulfiller<void>> done;
};

kj::Promise<void> SystemPartitions::change(kj::String node, kj::StringPtr label, Encryption before,
                                           Encryption after, KeyChangeExtent extent,
                                           kj::Function<kj::Promise<void>()> persist,
                                           SayLine step) {
  if (extent == KeyChangeExtent::kWhole) checkChange(node, label, before, after);
  auto partition = partitionOfMapping(node);
  if (partition == nullptr || before == nullptr || after == nullptr) {
    co_await persist();
    co_return;
  }
  // Read before the first wait, during which the config may be replaced.
  auto id = deps.uuid();
  auto old = settingsBefore(KJ_ASSERT_NONNULL(before), label, id);
  auto next = settingsOf(KJ_ASSERT_NONNULL(after), label, id);
  Turn turn(*this, label);
  co_await turn.before;
  auto relyOn = [&]() { return storeStateKeys(label, KJ_ASSERT_NONNULL(after)); };
  if (sameKeys(old, next)) {
    co_await persist();
    co_return co_await relyOn().catch_(
        [&](kj::Exception&& e) { deps.say(kj::str("warning: ", label, ": ", messageOf(e))); });
  }
  auto device = kj::str("/dev/", KJ_ASSERT_NONNULL(partition));
  // A list that is stored is in force. If it did not count as applied, the previous config could be
  // applied again, without a check that its keys are gone.
  bool persisted = false;
  kj::Maybe<kj::Exception> failure;
  HeaderGuard luks(deps.luks, kj::str(device), backupOf(label));
  auto mark = [&]() -> kj::Promise<void> {
    co_await luks.backupMeanwhile();
    co_await persist();
    persisted = true;
    co_await relyOn();
  };
  auto failed = [&](kj::Exception&& e) {
    if (failure == nullptr) failure = kj::mv(e);
  };
  co_await changeKeys(luks, kj::str(device), old, next, extent, mark, kj::mv(step)).catch_(failed);
  // The header has a backup, however the change ended.
  co_await luks.finish().catch_(failed);
  co_await inspectAndReportKeys(label, kj::str(device), next);
  KJ_IF_MAYBE (e, failure) {
    if (!persisted) kj::throwFatalException(kj::mv(*e));
    deps.say(kj::str("warning: ", label,
                     ": the config is stored, but its keys are not all in place: ", messageOf(*e),
                     "; the next boot does the rest"));
    co_return;
  }
  bool whole = extent == KeyChangeExtent::kWhole;
  deps.say(
      kj::str(label, ": ",
              whole ? "its keys were changed" : "the next boot can open it with the new keys"));
}

// Runs even if the caller goes away: an interrupted call would leave a slot without its key.
kj::Promise<kj::String> SystemPartitions::newRecoveryKey(kj::String node, kj::StringPtr label,
                                                         Encryption how, unsigned slot) {
  auto made = kj::newPromiseAndFulfiller<kj::String>();
  tasks.add(makeRecoveryKey(kj::mv(node), label, how, slot)
                .then(
                    [&caller = *made.fulfiller](kj::String passphrase) {
                      if (caller.isWaiting()) return caller.fulfill(kj::mv(passphrase));
                      zeroize(passphrase);
                    },
                    [&caller = *made.fulfiller](kj::Exception&& e) { caller.reject(kj::mv(e)); })
                .attach(kj::mv(made.fulfiller)));
  return kj::mv(made.promise);
}

kj::Promise<kj::String> SystemPartitions::makeRecoveryKey(kj::String node, kj::StringPtr label,
                                                          Encryption how, unsigned slot) {
  auto partition = partitionOfMapping(node);
  if (partition == nullptr || how == nullptr) {
    fail(ErrorKind::kFailedPrecondition, kj::str(label, " is not encrypted, so it has no keys"));
  }
  if (Turn::turnsOf(*this, label).count > 0) {
    fail(ErrorKind::kConflict, kj::str(label, ": its keys are being changed; retry"));
  }
  auto device = kj::str("/dev/", KJ_ASSERT_NONNULL(partition));
  auto settings = settingsOf(KJ_ASSERT_NONNULL(how), label, deps.uuid());
  Turn turn(*this, label);
  auto passphrase = newRecoveryPassphrase();
  VolumeKey key(slot, KeyKind::kStatic, kj::heapArray<kj::byte>(passphrase.asBytes()));
  HeaderGuard luks(deps.luks, kj::str(device), backupOf(label));
  kj::Maybe<kj::Exception> failure;
  auto failed = [&](kj::Exception&& e) {
    if (failure == nullptr) failure = kj::mv(e);
  };
  co_await putRecoveryKey(luks, kj::str(device), settings, kj::mv(key)).catch_(failed);
  co_await luks.finish().catch_(failed);
  KJ_IF_MAYBE (e, failure) {
    zeroize(passphrase);
    kj::throwFatalException(kj::mv(*e));
  }
  co_await inspectAndReportKeys(label, kj::str(device), settings);
  deps.say(kj::str(label, ": a recovery key was made at slot ", slot));
  co_return kj::mv(passphrase);
}

}  // namespace talos::machined
