#include "machined/disk/volumes/system-partitions.h"

#include <kj/debug.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/disk/empty-partition.h"
#include "common/disk/volume-labels.h"
#include "machined/disk/encryption/node-id-passphrase.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kMappings = "/dev/mapper/"_kj;
// Between tries of 10 s each (kKmsTimeout).
constexpr Backoff::Pace kServerPace = {5 * kj::SECONDS, 60 * kj::SECONDS};

[[noreturn]] void refusePartition(kj::String problem) {
  fail(ErrorKind::kFailedPrecondition, problem);
}

// Returns why it cannot be used; nullptr if it can.
kj::Maybe<kj::StringPtr> unfit(const Volume& volume) {
  if (volume.problem.size() > 0) return volume.problem.asPtr();
  bool empty = volume.content == nullptr;  // or it seems to be
  if (!empty && !volume.contains(FileSystem::kXfs) && !volume.contains(FileSystem::kExt4) &&
      !volume.contains(FileSystem::kLuks)) {
    return "has no file owners and modes; use XFS or ext4"_kj;
  }
  if (volume.device.readOnly) return "is read-only"_kj;
  return nullptr;
}

// Refuses a volume that is neither empty nor good. A node whose STATE cannot be read has no config,
// so it carries out no reset.
[[noreturn]] void refuseContent(kj::StringPtr label, kj::StringPtr node, const Luks::Found& found) {
  bool luks = found.content == Luks::Content::LUKS;
  auto problem = found.problem.size() == 0
                     ? kj::str(" is not empty, but has no readable file system; repair it")
                     : kj::str(luks ? ": " : " ", found.problem, "; restore its header");
  auto renewal = label == kStateName
                     ? kj::str("wipe the partition, reboot, and apply the config again")
                 : isVolumeLabel(label)
                     ? kj::str("wipe the partition")
                     : kj::str("use talosctl reset --reboot --system-labels-to-wipe=", label);
  refusePartition(kj::str(node, problem, ", or, if nothing on it is needed, ", renewal));
}

// Returns true for a volume of a document that was made before: it is never formatted.
bool wasMade(const Volume& volume, kj::StringPtr label) {
  return isVolumeLabel(label) && volume.device.partitionName == label;
}

[[noreturn]] void refuseEmptied(kj::StringPtr node, kj::StringPtr what) {
  refusePartition(kj::str(node, " was made before, and ", what, "; restore its data, or, if ",
                          "nothing on it is needed, remove the partition"));
}

// The part of the config that says how a volume is encrypted.
kj::StringPtr configOf(kj::StringPtr label) {
  return isVolumeLabel(label) ? "its document"_kj : "machine.systemDiskEncryption"_kj;
}

// Resolves with true if an encryption in a VolumeConfig leaves the volume as it is.
kj::Promise<bool> staysPlain(SystemPartitions& all, const Volume& volume, kj::StringPtr label,
                             EncryptionFrom from) {
  bool plain = volume.content != nullptr && !volume.contains(FileSystem::kLuks);
  if (from != EncryptionFrom::kVolumeConfig || !plain) co_return false;
  co_return !co_await all.isUnfinished(volume, label);
}

// Returns true for a failure that a key server may end when it answers.
bool mayOpenLater(kj::StringPtr label, const Encryption& how, const kj::Exception& e) {
  if (isVolumeLabel(label) || kindOf(e) != ErrorKind::kUnavailable) return false;
  KJ_IF_MAYBE (encryption, how) {
    for (auto key : encryption->getKeys()) {
      if (key.hasKms() && !key.hasStatic() && !key.hasNodeID()) return true;
    }
  }
  return false;
}

// Volumes of documents have no label, because theirs may be longer than XFS allows.
kj::String fileSystemLabel(kj::StringPtr label) {
  return kj::str(isVolumeLabel(label) ? ""_kj : label);
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
  KJ_IF_MAYBE (problem, unfit(*named[0])) {
    refusePartition(kj::str(label, ": ", named[0]->device.node(), " ", *problem));
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

EncryptionFrom encryptionFrom(config::Config::Reader config, kj::StringPtr label) {
  auto path = encryptionPath(EncryptionFrom::kVolumeConfig, label);
  for (auto document : config.getDocuments()) {
    if (document == path) return EncryptionFrom::kVolumeConfig;
  }
  return EncryptionFrom::kMainDocument;
}

kj::String encryptionPath(EncryptionFrom from, kj::StringPtr label) {
  if (from == EncryptionFrom::kVolumeConfig) return kj::str("VolumeConfig[", label, "].encryption");
  return kj::str("machine.systemDiskEncryption.", label == kStateName ? "state" : "ephemeral");
}

kj::String notEncryptedText(EncryptionFrom from, kj::StringPtr label) {
  return kj::str(encryptionPath(from, label),
                 ": not in effect: the partition is not encrypted; reset ", label,
                 " to encrypt it");
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

void SystemPartitions::taskFailed(kj::Exception&& e) {
  deps.say(kj::str("warning: ", messageOf(e)));
}

kj::Maybe<kj::String> SystemPartitions::backupOf(kj::StringPtr label) {
  if (label == kStateName) return nullptr;
  KJ_IF_MAYBE (folder, deps.backups()) return kj::str(*folder, "/", label);
  return nullptr;
}

kj::Promise<void> SystemPartitions::forgetHeader(kj::StringPtr label) {
  KJ_IF_MAYBE (file, backupOf(label)) {
    co_await deps.luks.forget(*file).catch_([&](kj::Exception&& e) {
      deps.say(kj::str("warning: ", label,
                       ": the backup of its header of before is not removed: ", messageOf(e)));
    });
  }
}

kj::Promise<SystemPartitions::Mountable> SystemPartitions::makeMountable(
    Luks& luks, const Volume& volume, kj::StringPtr label, kj::String mapped, Luks::Opened opened) {
  auto node = volume.device.node();
  if (opened.fresh) {
    co_await deps.installer.format(kj::str(mapped), fileSystemLabel(label), kFreshBytes);
    co_await luks.settle(node);
  }
  deps.say(kj::str(label, ": ", node, " was opened by the key of slot ", opened.slot));
  co_return Mountable{kj::mv(mapped), FileSystem::kXfs};
}

kj::Promise<kj::Maybe<SystemPartitions::Mountable>> SystemPartitions::openEarly(
    const Volume& volume, kj::StringPtr label, const VolumeSettings& settings,
    VolumeReport& report) {
  auto mapping = mappingOf(volume.device.name);
  Luks::Found found;
  if (hasSealedKey(settings)) found = co_await deps.luks.inspect(volume.device.node());
  auto keys = co_await unsealKeys(deps.luks, found, settings);
  if (!keys.problems.empty()) {
    report.error = kj::strArray(keys.problems, "; ");
    deps.say(kj::str("warning: ", label, ": ", report.error));
  }
  auto result = co_await deps.luks.open(volume.device.node(), mapping, keys.settings);
  KJ_IF_MAYBE (opened, result) {
    report.slot = opened->slot;
    bool own = keys.settings.keys[opened->key].kind == KeyKind::kNodeId;
    openedBy = OpenedBy{own ? opened->slot : kKeySlots, nullptr};
    co_return co_await makeMountable(deps.luks, volume, label, kj::str(kMappings, mapping),
                                     *opened);
  }
  co_return nullptr;
}

// Returns nullptr if META has no list, or an unusable one, which counts as missing.
kj::Promise<kj::Maybe<VolumeSettings>> SystemPartitions::listInMeta() {
  kj::Maybe<VolumeSettings> list;
  auto read = [&]() -> kj::Promise<void> {
    KJ_IF_MAYBE (text, co_await deps.stateKeys.read()) {
      KJ_DEFER(zeroize(*text));
      list = readStateKeys(*text, deps.uuid());
    }
  };
  co_await kj::evalNow(read).catch_([this](kj::Exception&& e) {
    deps.say(kj::str("warning: STATE: its list of keys in META cannot be used: ", messageOf(e)));
  });
  co_return kj::mv(list);
}

// Resolves with nullptr if no key fits that a boot has without a config.
kj::Promise<kj::Maybe<SystemPartitions::Mountable>> SystemPartitions::openWithoutConfig(
    const Volume& volume, kj::StringPtr label, VolumeReport& report, bool& served) {
  KJ_IF_MAYBE (list, co_await listInMeta()) {
    served = hasKmsKey(*list);
    auto open = co_await openEarly(volume, label, *list, report);
    if (open != nullptr) co_return kj::mv(open);
  }
  auto id = deps.uuid();
  if (weaknessOf(id) != nullptr) co_return nullptr;
  co_return co_await openEarly(volume, label, settingsOfMachine(label, id), report);
}

// If the machine's own key opens STATE, too, a failure to store the list is only a warning.
kj::Promise<void> SystemPartitions::storeStateKeys(kj::StringPtr label,
                                                   config::Encryption::Reader how) {
  if (label != kStateName) co_return;
  bool needed = needsStateKeys(how);
  co_await deps.stateKeys.store(stateKeysText(how)).catch_([&](kj::Exception&& e) {
    if (needed) kj::throwFatalException(kj::mv(e));
    if (kindOf(e) == ErrorKind::kFailedPrecondition) return;  // there is no META
    deps.say(kj::str("warning: STATE: its keys are not stored: ", messageOf(e)));
  });
}

kj::Promise<void> SystemPartitions::removeStateKeys(kj::StringPtr label) {
  if (label != kStateName) return kj::READY_NOW;
  return deps.stateKeys.remove().catch_([this](kj::Exception&& e) {
    if (kindOf(e) == ErrorKind::kFailedPrecondition) return;  // there is no META
    deps.say(kj::str("warning: STATE: its keys are not removed: ", messageOf(e)));
  });
}

kj::Maybe<const Volume&> SystemPartitions::find(kj::ArrayPtr<const Volume> volumes,
                                                kj::StringPtr label, kj::StringPtr name,
                                                kj::Maybe<kj::StringPtr> disk) {
  kj::Maybe<const Volume&> found;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&]() { found = findNamed(volumes, label, name, disk); })) {
    VolumeReport report;
    report.phase = VolumePhase::kFailed;
    report.error = messageOf(*e);
    deps.reports.report(label, report);
    kj::throwFatalException(kj::mv(*e));
  }
  return found;
}

kj::Promise<SystemPartitions::Early> SystemPartitions::prepareEarly(const Volume& volume,
                                                                    kj::StringPtr label) {
  auto node = volume.device.node();
  VolumeReport report;
  report.location = kj::str(node);
  report.bytes = volume.device.bytes;
  if (co_await isUnfinished(volume, label)) {
    report.error =
        kj::str(node, " was left unfinished, and there is no config yet to format it by");
    deps.say(kj::str(label, ": ", report.error));
    deps.reports.report(label, report);
    co_return Early();
  }
  auto found = co_await deps.luks.inspect(node);
  report.encrypted = found.content == Luks::Content::LUKS;
  if (found.content == Luks::Content::OTHER || found.problem.size() > 0) {
    auto refusal = kj::runCatchingExceptions([&]() { refuseContent(label, node, found); });
    report.phase = VolumePhase::kFailed;
    report.error = messageOf(KJ_ASSERT_NONNULL(refusal));
    deps.reports.report(label, report);
    kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(refusal)));
  }
  Early early;
  if (report.encrypted && !found.slots.empty()) {
    bool served = false;
    early.open = co_await openWithoutConfig(volume, label, report, served);
    early.locked = early.open == nullptr;
    early.served = early.locked && served;
  }
  KJ_IF_MAYBE (open, early.open) {
    report.phase = VolumePhase::kReady;
    report.mountLocation = kj::str(open->node);
    report.fileSystem = kj::str(nameOf(open->type));
  } else {
    auto problem =
        kj::str(node, early.served   ? " is encrypted, and its key server has not opened it yet"
                      : early.locked ? " is encrypted, and there is no config yet to open it with"
                                     : " is empty, and there is no config yet to format it by");
    deps.say(kj::str(label, ": ", problem));
    report.error =
        report.error.size() == 0 ? kj::mv(problem) : kj::str(problem, "; ", report.error);
  }
  deps.reports.report(label, report);
  co_return kj::mv(early);
}

kj::Promise<SystemPartitions::Mountable> SystemPartitions::prepare(const Volume& volume,
                                                                   kj::StringPtr label,
                                                                   Encryption how, KeyCare care,
                                                                   EncryptionFrom from) {
  SecretMessage own;  // the config may be replaced during a long wait
  KJ_IF_MAYBE (wanted, how) {
    own.setRoot(*wanted);
    how = own.getRoot<config::Encryption>().asReader();
  }
  auto once = [&](VolumeReport& report) -> kj::Promise<Mountable> {
    report.location = volume.device.node();
    report.bytes = volume.device.bytes;
    report.encrypted = how != nullptr;
    if (how != nullptr && co_await staysPlain(*this, volume, label, from)) {
      how = nullptr;
      report.encrypted = false;
      report.error = notEncryptedText(from, label);
      deps.say(kj::str("warning: ", report.error));
    }
    KJ_IF_MAYBE (wanted, how) {
      co_return co_await prepareEncrypted(volume, label, *wanted, care, report);
    }
    co_return co_await preparePlain(volume, label);
  };
  Backoff pauses(kServerPace);
  kj::String printed;
  kj::Maybe<Mountable> result;
  while (result == nullptr) {
    VolumeReport report;
    kj::Maybe<kj::Exception> failure;
    co_await kj::evalNow([&]() { return once(report); })
        .then([&](Mountable&& m) { result = kj::mv(m); },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      bool waits = deps.timer != nullptr && mayOpenLater(label, how, *e);
      report.phase = waits ? VolumePhase::kWaiting : VolumePhase::kFailed;
      report.error = messageOf(*e);
      deps.reports.report(label, report);
      if (printed.size() > 0 && !waits) deps.waits("");
      if (!waits) kj::throwFatalException(kj::mv(*e));
      deps.waits(kj::str(label, ": ", report.error));
      if (report.error != printed) {
        deps.say(kj::str("warning: ", label, ": ", report.error, "; retrying"));
      }
      printed = kj::mv(report.error);
      co_await KJ_ASSERT_NONNULL(deps.timer).afterDelay(pauses.next());
      continue;
    }
    auto& mountable = KJ_ASSERT_NONNULL(result);
    report.phase = VolumePhase::kReady;
    report.mountLocation = kj::str(mountable.node);
    report.fileSystem = kj::str(nameOf(mountable.type));
    deps.reports.report(label, report);
    KJ_IF_MAYBE (wanted, how) {
      auto settings = settingsOf(*wanted, label, deps.uuid());
      co_await inspectAndReportKeys(label, kj::str(report.location), settings);
    }
  }
  if (printed.size() > 0) deps.waits("");
  co_return kj::mv(KJ_ASSERT_NONNULL(result));
}

kj::Promise<void> SystemPartitions::mounting(kj::StringPtr label, kj::Promise<void> work) {
  return work.catch_([this, label](kj::Exception&& e) {
    deps.reports.reportFailure(label, messageOf(e));
    kj::throwFatalException(kj::mv(e));
  });
}

kj::Promise<SystemPartitions::Mountable> SystemPartitions::prepareEncrypted(
    const Volume& volume, kj::StringPtr label, config::Encryption::Reader how, KeyCare care,
    VolumeReport& report) {
  auto node = volume.device.node();
  if (co_await isUnfinished(volume, label)) {
    co_await clearUnfinished(volume, label);
  } else if (volume.content != nullptr && !volume.contains(FileSystem::kLuks)) {
    refusePartition(kj::str(
        node, " is not encrypted (", nameOf(KJ_ASSERT_NONNULL(volume.content).type), "), but ",
        configOf(label), " wants it to be; wipe the partition, or remove it from there"));
  }
  auto settings = settingsOf(how, label, deps.uuid());
  auto mapping = mappingOf(volume.device.name);
  auto mapped = kj::str(kMappings, mapping);
  auto persist = [&]() { return storeStateKeys(label, how); };
  HeaderGuard luks(deps.luks, kj::str(node), backupOf(label));
  using IfEmpty = HeaderGuard::IfEmpty;
  auto ifEmpty = wasMade(volume, label) ? IfEmpty::kWasMade : IfEmpty::kIsNew;
  KJ_IF_MAYBE (replaced, co_await luks.check(settings, ifEmpty)) {
    deps.say(kj::str("warning: ", label, ": ", *replaced));
    report.error = kj::mv(*replaced);
  }
  if (ifEmpty == IfEmpty::kWasMade) {
    auto found = co_await deps.luks.inspect(node);
    bool bare = found.content == Luks::Content::EMPTY ||
                (found.content == Luks::Content::LUKS && found.slots.empty());
    if (bare) refuseEmptied(node, "its LUKS2 header is gone, with no backup that fits");
  }
  auto opened =
      co_await openVolume(luks, kj::str(node), kj::mv(mapping), settings, deps.say, persist, care);
  report.slot = opened.slot;
  if (!opened.problems.empty()) {
    report.error = kj::str(report.error, report.error.size() > 0 ? "; " : "",
                           kj::strArray(opened.problems, "; "));
  }
  if (care == KeyCare::kLeave) openedBy = OpenedBy{opened.slot, kj::mv(settings)};
  auto mountable = co_await makeMountable(luks, volume, label, kj::mv(mapped),
                                          Luks::Opened{opened.slot, 0, opened.fresh});
  co_await luks.finish().catch_([&](kj::Exception&& e) {
    deps.say(kj::str("warning: ", label, ": there is no new backup of the header of ", node, ": ",
                     messageOf(e)));
  });
  co_return kj::mv(mountable);
}

// The remains of mkfs may look like anything except a LUKS header or another file system.
kj::Promise<bool> SystemPartitions::isUnfinished(const Volume& volume, kj::StringPtr label) {
  bool installing = volume.device.partitionName != label;
  bool possible = volume.content == nullptr || volume.contains(FileSystem::kXfs);
  if (installing || !possible || isVolumeLabel(label)) return false;
  return deps.marks.has(label, volume.device.begin);
}

// The mark is removed last.
kj::Promise<void> SystemPartitions::clearUnfinished(const Volume& volume, kj::StringPtr label) {
  co_await deps.installer.clear(volume.device.node(), emptyHeadOf(volume.device.bytes));
  co_await deps.marks.clear(label);
}

// Called before the mark is set: with a mark, the next boot would not check the content.
kj::Promise<void> SystemPartitions::requireEmpty(const Volume& volume, kj::StringPtr label) {
  auto node = volume.device.node();
  auto found = co_await deps.luks.inspect(node);
  if (found.content != Luks::Content::EMPTY) refuseContent(label, node, found);
}

kj::Promise<void> SystemPartitions::formatPlain(const Volume& volume, kj::StringPtr label,
                                                bool unfinished) {
  auto node = volume.device.node();
  if (volume.device.partitionName != label) {  // an installation has emptied it
    co_return co_await deps.installer.format(kj::mv(node), fileSystemLabel(label),
                                             emptyHeadOf(volume.device.bytes));
  }
  if (!unfinished) co_await requireEmpty(volume, label);
  bool marked = co_await deps.marks.set(label, volume.device.begin);
  co_await deps.installer.format(kj::mv(node), kj::str(label), 0);
  if (marked) co_await deps.marks.clear(label);
}

// Called when the volume is plain: with its old header and keys, the remains of an earlier
// encrypted volume could be read.
kj::Promise<void> SystemPartitions::forgetKeys(kj::StringPtr label) {
  co_await removeStateKeys(label);
  co_await forgetHeader(label);
}

kj::Promise<SystemPartitions::Mountable> SystemPartitions::preparePlain(const Volume& volume,
                                                                        kj::StringPtr label) {
  auto node = volume.device.node();
  if (volume.contains(FileSystem::kLuks)) {
    refusePartition(
        isVolumeLabel(label)
            ? kj::str(node, " is encrypted, but its document does not say so")
            : kj::str(node, " is encrypted, but the config has no ", configOf(label), " for it"));
  }
  bool unfinished = co_await isUnfinished(volume, label);
  if (!unfinished) {
    KJ_IF_MAYBE (content, volume.content) {
      auto type = content->type;
      co_await forgetKeys(label);
      co_return Mountable{kj::mv(node), type};
    }
  }
  if (wasMade(volume, label)) {
    auto found = co_await deps.luks.inspect(node);
    if (found.content != Luks::Content::EMPTY) refuseContent(label, node, found);
    refuseEmptied(node, "begins with zeros now");
  }
  co_await formatPlain(volume, label, unfinished);
  co_await forgetKeys(label);
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
  deps.reports.report(label, report);
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

}  // namespace talos::machined
