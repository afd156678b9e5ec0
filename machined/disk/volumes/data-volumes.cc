#include "machined/disk/volumes/data-volumes.h"

#include <errno.h>
#include <kj/debug.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/disk/volume-labels.h"
#include "machined/disk/volumes/volume-use.h"
#include "machined/resources/store-records.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {

using Status = rpc::VolumeStatusSpec;

namespace {

constexpr auto kPassEnds = 30 * kj::SECONDS;  // the running step of a pass, at a shutdown
constexpr kj::StringPtr kPass = "a pass"_kj;  // among the attempts of volumes

// Returns true for the id of a volume that a document describes.
bool isOfDocument(kj::StringPtr id) {
  return isVolumeLabel(id) || id.startsWith("e-");
}

kj::Maybe<unsigned> numberOf(kj::StringPtr name, const FoundOnDisk& found) {
  for (auto& place : found.places) {
    if (place.name == name) return place.number;
  }
  return nullptr;
}

}  // namespace

kj::Promise<Volume> partitionOf(Volumes& volumes, const Placement& placement, kj::StringPtr name) {
  FoundVolumes found;
  found.volumes = co_await volumes.look();
  co_return copyOf(found.volumeOf(placement), name);
}

DataVolumes::DataVolumes(Dependencies given)
    : deps(kj::mv(given)),
      records(deps.uv, kj::mv(deps.records)),
      uses(kj::heap<VolumeUse>(deps)) {}
DataVolumes::~DataVolumes() noexcept(false) {}

kj::ArrayPtr<const kj::String> DataVolumes::different() const {
  return uses->differences;
}

void DataVolumes::report(ConfigVolume volume, VolumePhase phase, kj::String reason) {
  uses->report(volume, phase, kj::mv(reason));
}

// --- the disks as they are

kj::Promise<kj::Own<DataVolumes::Found>> DataVolumes::look(const Wanted& wanted) {
  auto found = kj::heap<Found>();
  if (!wanted.needsDisks()) co_return kj::mv(found);
  found->volumes = co_await deps.volumes.look();
  auto facts = co_await deps.disks();
  auto state = deps.stateDevice().orDefault(kj::String());
  KJ_IF_MAYBE (partition, partitionOfMapping(state)) state = kj::str("/dev/", *partition);
  found->records = co_await records.read();
  for (auto& disk : facts) {
    auto& out = found->disks.add();
    out.facts = kj::mv(disk);
    for (auto& v : found->volumes) {
      if (v.device.disk != out.facts.name) continue;
      if (v.device.whole) out.readOnly = v.device.readOnly;
      out.systemDisk = out.systemDisk || (!v.device.whole && v.device.node() == state);
    }
    out.appeared = wanted.occasion == Occasion::kEvent &&
                   present.find(identityOf(found->volumes, out.facts.name)) == nullptr;
    co_await describe(out, found->volumes, deps.look);
    for (auto named : wanted.machine.getDisks()) {
      if (named.getDevice() == kj::str("/dev/", out.facts.name)) {
        out.unfit = kj::str("machine.disks names it");
      }
    }
  }
  bool installed = false;
  for (auto& disk : found->disks) installed = installed || disk.systemDisk;
  for (auto& disk : found->disks) {
    bool next = !installed &&
                wanted.machine.getInstall().getDisk() == kj::str("/dev/", disk.facts.name).asPtr();
    if (next) disk.unfit = kj::str("machine.install.disk names it");
  }
  found->plan = planVolumes(wanted.machine.getVolumes(), found->disks, found->records);
  co_return kj::mv(found);
}

kj::Promise<kj::Vector<kj::String>> DataVolumes::plan(config::Machine::Reader machine) {
  Wanted wanted(machine, Occasion::kAsked);
  auto found = co_await look(wanted);
  for (auto& p : found->plan) {
    if (p.kind != PlacementKind::kFound) continue;
    auto& partition = found->volumeOf(p);
    p.inUse = uses->isUsedNow(p.volume, partition.device.node());
    if (p.inUse || p.volume.getKind() != StorageVolume::Kind::PARTITION) continue;
    auto reason = whyUnusable(partition);
    if (reason == nullptr && partition.content == nullptr && !p.volume.hasEncryption()) {
      reason = kj::str(partition.device.node(), " has no file system");
    }
    bool encrypted = partition.contains(FileSystem::kLuks);
    bool differs = partition.content != nullptr && encrypted != p.volume.hasEncryption();
    if (reason == nullptr && differs) {
      reason = kj::str(partition.device.node(),
                       encrypted ? " is encrypted, but its document does not say so"
                                 : " is not encrypted, but its document says so");
    }
    KJ_IF_MAYBE (text, reason) {
      p.kind = PlacementKind::kFailed;
      p.reason = kj::mv(*text);
    }
  }
  auto lines = textOfPlan(found->plan);
  auto text = kj::str(readFile(deps.mountinfo));
  auto labels = ownLabels(wanted.machine.getVolumes(), found->records);
  for (auto& line :
       textOfExisting(wanted.machine.getVolumes(), found->volumes, found->disks, labels, text)) {
    lines.add(kj::mv(line));
  }
  KJ_IF_MAYBE (reason, deps.held()) {
    if (!lines.empty()) lines.add(kj::str("nothing is written to disks while ", *reason));
  }
  for (auto& id : others(wanted)) {
    KJ_IF_MAYBE (status, deps.store.tryGet<Status>(id)) {
      auto place = status->getLocation().size() > 0 ? status->getLocation() : status->getTarget();
      if (place.size() == 0) continue;  // it only waited
      lines.add(kj::str("stops the use of ", id, "; its data stay on ", place));
    }
  }
  co_return kj::mv(lines);
}

// --- new partitions

kj::Promise<void> DataVolumes::make(const Placement& placement) {
  kj::StringPtr id = placement.volume.getId();
  bool swap = placement.volume.getKind() == StorageVolume::Kind::SWAP;
  co_await deps.partitions.closeUnused();
  co_await deps.installer.run([&](rpc::InstallRequest::Builder request) {
    auto add = request.initAddPartition();
    add.setDisk(kj::str("/dev/", placement.disk));
    add.setName(id);
    add.setOffset(placement.offset);
    add.setSize(placement.bytes);
    add.setSwap(swap);
  });
  auto path = kj::str("/dev/", placement.disk);
  auto number = numberOf(id, co_await deps.look(path)).orDefault(placement.number);
  Placement made{.volume = placement.volume, .disk = kj::str(placement.disk), .number = number};
  // Without a name: it is unfinished.
  auto volume = co_await partitionOf(deps.volumes, made, "");
  volume.content = nullptr;  // its head was zeroed
  if (placement.volume.getKind() == StorageVolume::Kind::PARTITION) {
    auto ready = co_await deps.partitions.prepare(volume, id, encryptionOf(placement.volume));
    // While it is open, the kernel cannot learn its name.
    co_await deps.partitions.release(kj::mv(ready.node), id);
  }
  co_await records.write(recordOf(id, path, co_await deps.look(path)));
  co_await finish(placement);
  deps.alarm(kj::str(id, ": ", volume.device.node(), " was made"));
}

kj::Promise<void> DataVolumes::finish(const Placement& placement) {
  return deps.installer
      .run([&placement](rpc::InstallRequest::Builder request) {
        auto finish = request.initFinishPartition();
        finish.setDisk(kj::str("/dev/", placement.disk));
        finish.setName(placement.volume.getId());
      })
      .ignoreResult();
}

// Makes one volume after the other, each by a new plan. A volume that a disk refuses gets no other
// disk: the operator chooses, and the plan shows what he gets.
kj::Promise<kj::Own<DataVolumes::Found>> DataVolumes::makeMissing(const Wanted& wanted) {
  kj::TreeMap<kj::String, kj::String> failures;
  for (;;) {
    auto found = co_await look(wanted);
    const Placement* next = nullptr;
    for (auto& p : found->plan) {
      bool missing = p.kind == PlacementKind::kNew || p.kind == PlacementKind::kUnfinished;
      if (!missing || failures.find(p.volume.getId()) != nullptr) continue;
      KJ_IF_MAYBE (error, retries.failure(p.volume.getId(), found->keyOf(p), deps.timer.now())) {
        failures.insert(kj::str(p.volume.getId()), kj::str(*error));
        continue;
      }
      next = &p;
      break;
    }
    if (next == nullptr || closing || deps.held() != nullptr) {
      found->failures = kj::mv(failures);
      co_return kj::mv(found);
    }
    current = kj::str(next->volume.getId());
    report(next->volume, VolumePhase::kWaiting, kj::str("it is being made"));
    co_await kj::evalNow([&]() { return make(*next); }).catch_([&](kj::Exception&& e) {
      auto id = next->volume.getId();
      auto remedy = next->kind == PlacementKind::kNew
                        ? "; to use another disk, change the diskSelector of its document"_kj
                        : ""_kj;
      auto error = kj::str(messageOf(e), remedy);
      retries.failed(id, found->keyOf(*next), error, deps.timer.now());
      failures.insert(kj::str(id), kj::mv(error));
    });
  }
}

// --- the end of a volume

// Returns the volumes that are in use and have no document any more.
kj::Vector<kj::String> DataVolumes::others(const Wanted& wanted) {
  kj::Vector<kj::String> ids;
  for (auto status : deps.store.list<Status>()) {
    if (isOfDocument(status.id()) && !wanted.has(status.id())) ids.add(kj::str(status.id()));
  }
  return ids;
}

kj::Promise<void> DataVolumes::removeOthers(const Wanted& wanted) {
  for (auto& id : others(wanted)) {
    if (closing) co_return;
    kj::String place;
    KJ_IF_MAYBE (status, deps.store.tryGet<Status>(id)) place = kj::str(status->getLocation());
    KJ_IF_MAYBE (reason, co_await uses->release(id)) {
      deps.say(kj::str("warning: ", id,
                       ": its document was removed, and it is still in use: ", *reason));
      deps.reports.reportFailure(
          id, kj::str("its document was removed, and it is still in use: ", *reason));
      continue;
    }
    dropRecord<Status>(deps.store, id);
    if (place.size() == 0) continue;
    deps.alarm(kj::str(
        id, ": not used any more, because its document was removed; the data stay on ", place));
  }
}

kj::Promise<void> DataVolumes::unmountAll() {
  closing = true;
  latest = nullptr;  // no pass by itself any more
  co_await last.addBranch().exclusiveJoin(deps.timer.afterDelay(kPassEnds));
  kj::Vector<kj::String> all;
  // Unmounting needs memory, so swap is last.
  for (bool swap : {false, true}) {
    for (auto status : deps.store.list<Status>()) {
      kj::StringPtr id = status.id();
      if (isOfDocument(id) && id.startsWith("s-") == swap) all.add(kj::str(id));
    }
  }
  for (auto& id : all) {
    KJ_IF_MAYBE (reason, co_await uses->release(id))
      deps.say(kj::str("warning: ", id, ": ", *reason));
  }
}

kj::Vector<kj::String> DataVolumes::mounted() {
  kj::Vector<kj::String> targets;
  for (auto status : deps.store.list<Status>()) {
    bool partition = isOfDocument(status.id()) && status.getType() == "partition";
    if (partition && status.getTarget().size() > 0) targets.add(kj::str(status.getTarget()));
  }
  return targets;
}

// --- a pass

kj::Promise<void> DataVolumes::passOver(ConfigVolume volume, kj::Promise<void> work) {
  return work.catch_(
      [this, volume](kj::Exception&& e) { report(volume, VolumePhase::kFailed, messageOf(e)); });
}

kj::Promise<void> DataVolumes::passOver(const Placement& placement, const Found& found) {
  auto& volume = placement.volume;
  switch (placement.kind) {
    case PlacementKind::kFound:
      return useFound(placement, found);
    case PlacementKind::kFailed:
      if (uses->isInUse(volume)) {
        uses->differences.add(kj::str(documentOf(volume), ": ", placement.reason));
        break;
      }
      report(volume, VolumePhase::kFailed, kj::str(placement.reason));
      break;
    case PlacementKind::kWaiting:
      if (uses->isInUse(volume)) break;
      report(volume, VolumePhase::kWaiting, kj::str(placement.reason));
      break;
    default:
      KJ_IF_MAYBE (reason, deps.held()) {
        report(volume, VolumePhase::kWaiting, kj::str("it is not made while ", *reason));
      } else {
        report(volume, VolumePhase::kWaiting, kj::str("not made yet"));
      }
  }
  return kj::READY_NOW;
}

// A partition that gets its record now may be another one than that of which there is a backup of a
// LUKS2 header: the backup must not replace its header. It is kept under another name.
kj::Promise<void> DataVolumes::setBackupAside(const Placement& placement, const Found& found) {
  kj::StringPtr id = placement.volume.getId();
  for (auto& record : found.records) {
    if (record.label == id) co_return;
  }
  if (!found.volumeOf(placement).contains(FileSystem::kLuks)) co_return;
  KJ_IF_MAYBE (file, deps.partitions.backupOf(id)) {
    co_await deps.uv.blocking([from = kj::mv(*file)]() {
      auto to = kj::str(from, ".previous");
      if (rename(from.cStr(), to.cStr()) != 0 && errno != ENOENT) {
        KJ_FAIL_SYSCALL("rename", errno, from);
      }
    });
  }
}

kj::Promise<void> DataVolumes::useFound(const Placement& placement, const Found& found) {
  auto id = placement.volume.getId();
  auto key = found.keyOf(placement);
  KJ_IF_MAYBE (error, retries.failure(id, key, deps.timer.now())) {
    co_return report(placement.volume, VolumePhase::kFailed, kj::str(*error));
  }
  co_await kj::evalNow([&]() {
    return setBackupAside(placement, found);
  }).catch_([&](kj::Exception&& e) {
    deps.say(kj::str("warning: ", id, ": the backup of an earlier header: ", messageOf(e)));
  });
  VolumeRecord record{kj::str(id), kj::str(placement.diskId), kj::str(placement.partitionId)};
  co_await records.keep(kj::mv(record), found.records).catch_([&](kj::Exception&& e) {
    deps.say(kj::str("warning: ", id, ": its partition is not recorded: ", messageOf(e)));
  });
  co_await kj::evalNow([&]() { return uses->use(placement, found); })
      .then([&]() { retries.succeeded(id); },
            [&](kj::Exception&& e) {
              auto error = messageOf(e);
              retries.failed(id, key, error, deps.timer.now());
              report(placement.volume, VolumePhase::kFailed, kj::mv(error));
            });
}

kj::Promise<void> DataVolumes::pass(kj::Own<Wanted> wanted) {
  if (closing) co_return;
  uses->differences.clear();
  if (wanted->occasion == Occasion::kAsked) {
    retries.clear();
    asked = true;
  } else if (asked) {
    wanted->occasion = Occasion::kAsked;  // that pass failed before it knew the disks
  }
  co_await removeOthers(*wanted);
  co_await records.dropOthers(ownLabels(wanted->machine.getVolumes(), nullptr))
      .catch_([&](kj::Exception&& e) {
        deps.say(kj::str("warning: records of volumes are not dropped: ", messageOf(e)));
      });
  for (auto volume : wanted->machine.getVolumes()) {
    if (volume.getKind() != StorageVolume::Kind::DIRECTORY || closing) continue;
    co_await passOver(volume, kj::evalNow([&]() { return uses->bindDirectory(volume); }));
  }
  kj::Own<Found> found;
  if (deps.held() == nullptr) {
    found = co_await makeMissing(*wanted);
  } else {
    found = co_await look(*wanted);
  }
  noteUnread(*found);
  if (wanted->occasion == Occasion::kAsked) {
    for (auto& disk : found->disks) {
      present.upsert(identityOf(found->volumes, disk.facts.name), [](auto&, auto&&) {});
    }
    asked = false;
  }
  for (auto& p : found->plan) {
    if (closing) co_return;
    current = kj::str(p.volume.getId());
    KJ_IF_MAYBE (reason, found->failures.find(p.volume.getId())) {
      report(p.volume, VolumePhase::kFailed, kj::str(*reason));
    } else {
      co_await passOver(p, *found);
    }
  }
  for (auto volume : wanted->machine.getVolumes()) {
    if (volume.getKind() != StorageVolume::Kind::EXISTING || closing) continue;
    current = kj::str(volume.getId());
    co_await passOver(volume,
                      kj::evalNow([&]() { return uses->mountExisting(volume, *wanted, *found); }));
  }
}

// A disk that could not be read is looked at again after a pause, as no event may tell that it can
// be read.
void DataVolumes::noteUnread(const Found& found) {
  for (auto& disk : found.disks) {
    auto path = kj::str("/dev/", disk.facts.name);
    KJ_IF_MAYBE (reason, disk.unread) {
      repeatLater(path, *reason);
    } else {
      retries.succeeded(path);
    }
  }
  // An existing volume may be on a partition that could not be read.
  for (auto& volume : found.volumes) {
    if (volume.device.whole || volume.problem.size() == 0) continue;
    repeatLater(volume.device.node(), volume.problem);
  }
}

// A pass for another reason, before the pause is over, does not make it longer.
void DataVolumes::repeatLater(kj::StringPtr id, kj::StringPtr error) {
  auto now = deps.timer.now();
  if (retries.failure(id, "", now) == nullptr) retries.failed(id, "", error, now);
}

// Does a pass when a volume that has failed is due, or a pass that has failed itself.
void DataVolumes::armRetry() {
  retry = kj::NEVER_DONE;
  KJ_IF_MAYBE (due, retries.endPass()) {
    retry = deps.timer.atTime(*due)
                .then([this]() {
                  KJ_IF_MAYBE (wanted, latest) {
                    (void)reconcile((*wanted)->machine, Occasion::kEvent);  // `last` owns it
                  }
                })
                .eagerlyEvaluate(nullptr);
  }
}

kj::Promise<void> DataVolumes::reconcile(config::Machine::Reader machine, Occasion occasion) {
  if (occasion == Occasion::kBoot) {
    occasion = deps.restarted ? Occasion::kEvent : Occasion::kAsked;
  }
  auto wanted = kj::heap<Wanted>(machine, occasion);
  latest = kj::heap<Wanted>(wanted->machine, occasion);
  last = last.addBranch()
             .then([this, wanted = kj::mv(wanted)]() mutable { return pass(kj::mv(wanted)); })
             .then([this]() { retries.succeeded(kPass); },
                   [this](kj::Exception&& e) {
                     auto error = messageOf(e);
                     deps.say(kj::str("warning: the volumes of the config: ", error));
                     repeatLater(kPass, error);
                   })
             .then([this]() { armRetry(); })
             .eagerlyEvaluate(nullptr)
             .fork();
  return last.addBranch();
}

kj::Promise<void> DataVolumes::mountAtBoot(config::Machine::Reader machine) {
  constexpr auto kUsual = 10 * kj::SECONDS;
  if (machine.getVolumes().size() == 0) co_return co_await reconcile(machine, Occasion::kBoot);
  bool over = false;
  auto all = reconcile(machine, Occasion::kBoot).then([&over]() { over = true; }).fork();
  co_await all.addBranch().exclusiveJoin(deps.timer.afterDelay(kUsual));
  if (over) co_return;
  deps.say(kj::str("waiting up to ", kBootWaits / kj::SECONDS,
                   " s for the volumes of documents: ", current));
  co_await all.addBranch().exclusiveJoin(deps.timer.afterDelay(kBootWaits - kUsual));
  if (over) co_return;
  deps.say(kj::str("warning: the boot continues without the volumes of documents that are not ",
                   "ready, and their making continues: ", current));
}

kj::Promise<void> DataVolumes::nameUnused(config::Machine::Reader machine) {
  Wanted wanted(machine, Occasion::kEvent);
  for (auto& volume : co_await deps.volumes.look()) {
    kj::StringPtr name = volume.device.partitionName;
    bool unused = isVolumeLabel(name) && !wanted.has(name);
    if (!unused) continue;
    deps.alarm(kj::str(name, ": ", volume.device.node(), " is not used, because no document names ",
                       "it; its data stay"));
  }
}

}  // namespace talos::machined
