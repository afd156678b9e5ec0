#include "machined/storage/system-partitions.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/disk/empty-head.h"
#include "machined/encryption/node-key.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kMappings = "/dev/mapper/"_kj;
constexpr uint64_t kFreshBytes = 1u << 20;  // zeros of a new encrypted volume

[[noreturn]] void refusePartition(kj::String why) {
  fail(ErrorKind::kFailedPrecondition, why);
}

// Why it cannot be used; none when it can.
kj::Maybe<kj::StringPtr> unfit(const Volume& volume) {
  if (volume.problem.size() > 0) return volume.problem.asPtr();
  bool empty = volume.content == nullptr;  // or so it seems
  if (!empty && !volume.holds(FileSystem::kXfs) && !volume.holds(FileSystem::kExt4) &&
      !volume.holds(FileSystem::kLuks)) {
    return "has no file owners and modes; use XFS or ext4"_kj;
  }
  if (volume.device.readOnly) return "is read-only"_kj;
  return nullptr;
}

}  // namespace

kj::Maybe<const Volume&> findNamed(kj::ArrayPtr<const Volume> volumes, kj::StringPtr label,
                                   kj::StringPtr name, kj::Maybe<kj::StringPtr> disk) {
  kj::Vector<const Volume*> named;
  for (auto& v : volumes) {
    if (v.device.partitionName == name && v.device.disk == disk.orDefault(v.device.disk)) {
      named.add(&v);
    }
  }
  if (named.empty()) return nullptr;
  if (named.size() > 1) {
    auto nodes = KJ_MAP(v, named) {
      return v->device.node();
    };
    refusePartition(kj::str(label, ": more than one partition is named ", name, ": ",
                            kj::strArray(nodes, ", "),
                            "; remove the disks that are not this node's"));
  }
  KJ_IF_MAYBE (why, unfit(*named[0])) {
    refusePartition(kj::str(label, ": ", named[0]->device.node(), " ", *why));
  }
  return *named[0];
}

Encryption encryptionOfState(config::Machine::Reader machine) {
  auto all = machine.getSystemDiskEncryption();
  if (!all.hasState()) return nullptr;
  return all.getState();
}

Encryption encryptionOfEphemeral(config::Machine::Reader machine) {
  auto all = machine.getSystemDiskEncryption();
  if (!all.hasEphemeral()) return nullptr;
  return all.getEphemeral();
}

kj::StringPtr nameOf(VolumePhase phase) {
  constexpr kj::StringPtr kNames[] = {"waiting"_kj, "ready"_kj, "failed"_kj, "closed"_kj};
  return kNames[static_cast<size_t>(phase)];
}

kj::Maybe<kj::String> partitionOfMapping(kj::StringPtr node) {
  if (!node.startsWith(kMappings)) return nullptr;
  auto name = node.slice(kMappings.size());
  auto end = mappingOf("");
  if (name.size() <= end.size() || !name.endsWith(end)) return nullptr;
  return kj::heapString(name.slice(0, name.size() - end.size()));
}

kj::Promise<SystemPartitions::Mountable> SystemPartitions::makeMountable(const Volume& volume,
                                                                         kj::StringPtr label,
                                                                         kj::String mapped,
                                                                         Luks::Opened opened) {
  auto node = volume.device.node();
  if (opened.fresh) {
    co_await deps.installer.format(kj::str(mapped), kj::str(label), kFreshBytes);
    co_await deps.luks.settle(node);
  }
  deps.say(kj::str(label, ": ", node, " was opened by the key of slot ", opened.slot));
  co_return Mountable{kj::mv(mapped), FileSystem::kXfs};
}

// None when it is not the machine's key, or the machine cannot have one.
kj::Promise<kj::Maybe<SystemPartitions::Mountable>> SystemPartitions::openByMachine(
    const Volume& volume, kj::StringPtr label, VolumeReport& report) {
  auto id = deps.uuid();
  if (weaknessOf(id) != nullptr) co_return nullptr;
  auto settings = settingsOfMachine(label, id);
  auto mapping = mappingOf(volume.device.name);
  auto result = co_await deps.luks.open(volume.device.node(), mapping, settings);
  KJ_IF_MAYBE (opened, result) {
    report.slot = opened->slot;
    openedBy = OpenedBy{opened->slot, nullptr};
    co_return co_await makeMountable(volume, label, kj::str(kMappings, mapping), *opened);
  }
  co_return nullptr;
}

kj::Promise<SystemPartitions::Early> SystemPartitions::prepareEarly(const Volume& volume,
                                                                    kj::StringPtr label) {
  auto node = volume.device.node();
  VolumeReport report;
  report.location = kj::str(node);
  if (co_await isUnfinished(volume, label)) {
    report.error =
        kj::str(node, " was left unfinished, and there is no config yet to format it by");
    deps.say(kj::str(label, ": ", report.error));
    deps.report(label, report);
    co_return Early();
  }
  auto found = co_await deps.luks.inspect(node);
  report.encrypted = found.content == Luks::Content::kLuks;
  if (found.content == Luks::Content::kOther || found.problem.size() > 0) {
    report.phase = VolumePhase::kFailed;
    bool luks = found.content == Luks::Content::kLuks;
    report.error = found.problem.size() > 0
                       ? kj::str(node, luks ? ": " : " ", found.problem)
                       : kj::str(node, " holds something, but no file system that can be read");
    deps.report(label, report);
    refusePartition(kj::mv(report.error));
  }
  Early early;
  if (report.encrypted && !found.slots.empty()) {
    early.open = co_await openByMachine(volume, label, report);
    early.locked = early.open == nullptr;
  }
  KJ_IF_MAYBE (open, early.open) {
    report.phase = VolumePhase::kReady;
    report.mountLocation = kj::str(open->node);
    report.fileSystem = kj::str(nameOf(open->type));
  } else {
    report.error =
        kj::str(node, early.locked ? " is encrypted, and there is no config yet to open it with"
                                   : " is empty, and there is no config yet to format it by");
    deps.say(kj::str(label, ": ", report.error));
  }
  deps.report(label, report);
  co_return kj::mv(early);
}

// Known without deriving a key, which takes a second at each boot.
bool SystemPartitions::isRight(const Luks::Found& found, const VolumeSettings& settings) const {
  auto& keys = settings.keys;
  auto& by = KJ_ASSERT_NONNULL(openedBy);
  if (keys.size() != 1 || keys[0].slot != by.slot) return false;
  if (by.settings == nullptr && keys[0].kind != KeyKind::kNodeId) return false;
  return found.slots.size() == 1 && found.slots[0] == by.slot;
}

kj::Promise<bool> SystemPartitions::putRightIfOpened(kj::String device, const Luks::Found& found,
                                                     const VolumeSettings& settings) {
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
                            KeyChangeExtent::kWhole,
                            []() -> kj::Promise<void> { return kj::READY_NOW; });
        co_return true;
      }
    }
    if (isRight(found, settings)) co_return false;
    co_await putKeysRight(deps.luks, kj::mv(device), settings);
    co_return true;
  }
  co_return false;
}

void SystemPartitions::tellKeys(kj::StringPtr label, Luks::Found found,
                                const VolumeSettings& settings) {
  auto text = keysText(found.slots, settings);
  deps.reportKeys(label, KeysReport{kj::mv(found.slots), kj::mv(text)});
}

kj::Promise<void> SystemPartitions::putRight(kj::String node, kj::StringPtr label, Encryption how) {
  auto warn = [this, label = kj::str(label)](kj::StringPtr what) {
    deps.say(kj::str("warning: ", label, ": ", what));
  };
  auto partition = partitionOfMapping(node);
  if (partition == nullptr && how != nullptr) {
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
    bool changed = co_await putRightIfOpened(kj::str(device), found, settings);
    if (changed) found = co_await deps.luks.inspect(device);
    tellKeys(label, kj::mv(found), settings);
  };
  co_await kj::evalNow(work).catch_([&](kj::Exception&& e) { warn(messageOf(e)); });
  bool hasKeys = false;
  KJ_IF_MAYBE (by, openedBy) hasKeys = by->settings != nullptr;
  if (hasKeys) openedBy = nullptr;  // zeroed
}

kj::Promise<SystemPartitions::Mountable> SystemPartitions::prepare(const Volume& volume,
                                                                   kj::StringPtr label,
                                                                   uint64_t empty, Encryption how,
                                                                   KeyCare care) {
  VolumeReport report;
  report.location = volume.device.node();
  report.encrypted = how != nullptr;
  auto preparing = [&]() -> kj::Promise<Mountable> {
    KJ_IF_MAYBE (wanted, how) return prepareEncrypted(volume, label, *wanted, care, report);
    return preparePlain(volume, label, empty);
  };
  kj::Maybe<Mountable> result;
  kj::Maybe<kj::Exception> failure;
  co_await kj::evalNow(preparing).then([&](Mountable&& m) { result = kj::mv(m); },
                                       [&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    report.phase = VolumePhase::kFailed;
    report.error = messageOf(*e);
    deps.report(label, report);
    kj::throwFatalException(kj::mv(*e));
  }
  auto& mountable = KJ_ASSERT_NONNULL(result);
  report.phase = VolumePhase::kReady;
  report.mountLocation = kj::str(mountable.node);
  report.fileSystem = kj::str(nameOf(mountable.type));
  deps.report(label, report);
  KJ_IF_MAYBE (wanted, how) {
    auto settings = settingsOf(*wanted, label, deps.uuid());
    tellKeys(label, co_await deps.luks.inspect(report.location), settings);
  }
  co_return kj::mv(mountable);
}

kj::Promise<SystemPartitions::Mountable> SystemPartitions::prepareEncrypted(
    const Volume& volume, kj::StringPtr label, config::Encryption::Reader how, KeyCare care,
    VolumeReport& report) {
  auto node = volume.device.node();
  if (co_await isUnfinished(volume, label)) {
    co_await clearUnfinished(volume, label);
  } else if (volume.content != nullptr && !volume.holds(FileSystem::kLuks)) {
    refusePartition(
        kj::str(node, " is not encrypted (", nameOf(KJ_ASSERT_NONNULL(volume.content).type),
                "), but machine.systemDiskEncryption wants it to be; wipe the partition, or ",
                "remove it from there"));
  }
  auto settings = settingsOf(how, label, deps.uuid());
  auto mapping = mappingOf(volume.device.name);
  auto mapped = kj::str(kMappings, mapping);
  auto opened =
      co_await openVolume(deps.luks, kj::str(node), kj::mv(mapping), settings, deps.say, care);
  report.slot = opened.slot;
  if (care == KeyCare::kLeave) openedBy = OpenedBy{opened.slot, kj::mv(settings)};
  co_return co_await makeMountable(volume, label, kj::mv(mapped),
                                   Luks::Opened{opened.slot, 0, opened.fresh});
}

// What mkfs has left may look like anything; a LUKS header it cannot have left, nor another file system.
kj::Promise<bool> SystemPartitions::isUnfinished(const Volume& volume, kj::StringPtr label) {
  bool installing = volume.device.partitionName != label;
  bool possible = volume.content == nullptr || volume.holds(FileSystem::kXfs);
  if (installing || !possible) return false;
  return deps.marks.has(label, volume.device.begin);
}

// The mark goes last.
kj::Promise<void> SystemPartitions::clearUnfinished(const Volume& volume, kj::StringPtr label) {
  co_await deps.installer.clear(volume.device.node(), kEmptyHead);
  co_await deps.marks.clear(label);
}

kj::Promise<void> SystemPartitions::formatPlain(const Volume& volume, kj::StringPtr label,
                                                uint64_t empty) {
  bool installing = volume.device.partitionName != label, marked = false;
  if (!installing) marked = co_await deps.marks.set(label, volume.device.begin);
  co_await deps.installer.format(volume.device.node(), kj::str(label), empty);
  if (marked) co_await deps.marks.clear(label);
}

kj::Promise<SystemPartitions::Mountable> SystemPartitions::preparePlain(const Volume& volume,
                                                                        kj::StringPtr label,
                                                                        uint64_t empty) {
  auto node = volume.device.node();
  if (volume.holds(FileSystem::kLuks)) {
    refusePartition(kj::str(
        node, " is encrypted, but the config has no machine.systemDiskEncryption for ", "it"));
  }
  bool unfinished = co_await isUnfinished(volume, label);
  if (!unfinished) {
    KJ_IF_MAYBE (content, volume.content) co_return Mountable{kj::mv(node), content->type};
  }
  co_await formatPlain(volume, label, unfinished ? 0 : empty);
  deps.say(kj::str(label, ": ", node, unfinished ? " was left unfinished" : " was empty",
                   "; made an ", nameOf(FileSystem::kXfs), " file system"));
  co_return Mountable{kj::mv(node), FileSystem::kXfs};
}

kj::Promise<void> SystemPartitions::release(kj::String node, kj::StringPtr label) {
  VolumeReport report;
  report.phase = VolumePhase::kClosed;
  KJ_IF_MAYBE (partition, partitionOfMapping(node)) {
    report.encrypted = true;
    report.location = kj::str("/dev/", *partition);
    auto mapping = kj::str(node.slice(kMappings.size()));
    co_await deps.luks.close(mapping).catch_([this, label = kj::str(label)](kj::Exception&& e) {
      deps.say(kj::str("warning: ", label, ": ", messageOf(e)));
    });
  } else {
    report.location = kj::mv(node);
  }
  deps.report(label, report);
}

kj::Promise<void> SystemPartitions::closeUnused() {
  for (auto& mapping : deps.mappings()) {
    if (partitionOfMapping(kj::str(kMappings, mapping)) == nullptr) continue;
    auto closing = kj::evalNow([&]() { return deps.luks.close(mapping); });
    co_await closing.catch_([&](kj::Exception&& e) {
      if (kindOf(e) == ErrorKind::kUnavailable) return;  // it is in use
      deps.say(kj::str("warning: ", mapping, ": ", messageOf(e)));
    });
  }
}

void SystemPartitions::check(kj::StringPtr label, Encryption how) {
  KJ_IF_MAYBE (wanted, how) settingsOf(*wanted, label, deps.uuid());
}

void SystemPartitions::checkChange(kj::StringPtr node, kj::StringPtr label, Encryption before,
                                   Encryption after) {
  bool encrypted = partitionOfMapping(node) != nullptr, wanted = after != nullptr;
  if (encrypted == wanted || (before != nullptr) == wanted) return;
  refusePartition(
      kj::str(label, " is ", encrypted ? "" : "not ",
              "encrypted, which changes only with an empty partition; stage the config, ",
              "then reset ", label));
}

class SystemPartitions::Turn {
 public:
  Turn(SystemPartitions& all, kj::StringPtr label)
      : count(label == "STATE" ? all.turnsOfState : all.turnsOfOther) {
    ++count;
    auto& last = label == "STATE" ? all.lastOfState : all.lastOfOther;
    auto paf = kj::newPromiseAndFulfiller<void>();
    before = last.addBranch();
    // One that is dropped before its turn does not end that of its predecessor.
    last = kj::joinPromises(kj::arr(last.addBranch(), kj::mv(paf.promise))).fork();
    done = kj::mv(paf.fulfiller);
  }
  ~Turn() noexcept(false) {
    --count;
    done->fulfill();
  }
  KJ_DISALLOW_COPY_AND_MOVE(Turn);

  kj::Promise<void> before = nullptr;

 private:
  unsigned& count;
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
  // At once: what is waited for may replace the config.
  auto id = deps.uuid();
  auto old = settingsOf(KJ_ASSERT_NONNULL(before), label, id);
  auto next = settingsOf(KJ_ASSERT_NONNULL(after), label, id);
  Turn turn(*this, label);
  co_await turn.before;
  if (sameKeys(old, next)) {
    co_await persist();
    co_return;
  }
  auto device = kj::str("/dev/", KJ_ASSERT_NONNULL(partition));
  // What is stored is in force. If it did not count as applied, the config of before could be applied
  // once more, and nothing would see that its keys are gone.
  bool persisted = false;
  kj::Maybe<kj::String> undone;
  auto mark = [&]() { return persist().then([&]() { persisted = true; }); };
  co_await changeKeys(deps.luks, kj::str(device), old, next, extent, mark, kj::mv(step))
      .then([&]() { return deps.luks.inspect(device); })
      .then([&](Luks::Found found) { tellKeys(label, kj::mv(found), next); })
      .catch_([&](kj::Exception&& e) {
        if (!persisted) kj::throwFatalException(kj::mv(e));
        undone = messageOf(e);
      });
  KJ_IF_MAYBE (why, undone) {
    deps.say(kj::str("warning: ", label,
                     ": the config is stored, but its keys are not all in place: ", *why,
                     "; the next boot does the rest"));
    co_return;
  }
  bool whole = extent == KeyChangeExtent::kWhole;
  deps.say(
      kj::str(label, ": ",
              whole ? "its keys were changed" : "the next boot can open it with the new keys"));
}

kj::Promise<kj::String> SystemPartitions::newRecoveryKey(kj::String node, kj::StringPtr label,
                                                         Encryption how, unsigned slot) {
  auto partition = partitionOfMapping(node);
  if (partition == nullptr || how == nullptr) {
    refusePartition(kj::str(label, " is not encrypted, so it has no keys"));
  }
  if ((label == "STATE" ? turnsOfState : turnsOfOther) > 0) {
    fail(ErrorKind::kConflict, kj::str(label, ": its keys are being changed; retry"));
  }
  auto device = kj::str("/dev/", KJ_ASSERT_NONNULL(partition));
  auto settings = settingsOf(KJ_ASSERT_NONNULL(how), label, deps.uuid());
  Turn turn(*this, label);
  auto passphrase = newRecoveryPassphrase();
  VolumeKey key(slot, KeyKind::kStatic, kj::heapArray<kj::byte>(passphrase.asBytes()));
  co_await putRecoveryKey(deps.luks, kj::str(device), settings, kj::mv(key));
  tellKeys(label, co_await deps.luks.inspect(device), settings);
  deps.say(kj::str(label, ": a recovery key was made at slot ", slot));
  co_return kj::mv(passphrase);
}

}  // namespace talos::machined
