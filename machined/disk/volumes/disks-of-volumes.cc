#include "machined/disk/volumes/disks-of-volumes.h"

#include <capnp/message.h>

#include "common/base/error.h"
#include "common/base/sha256.h"
#include "common/disk/volume-labels.h"
#include "common/memory/zeroize.h"

namespace talos::machined {
namespace {

bool isPartitionOf(const Volume& volume, kj::StringPtr disk) {
  return !volume.device.whole && volume.device.disk == disk;
}

kj::Maybe<kj::String> problemOfDisk(kj::ArrayPtr<const Volume> volumes, kj::StringPtr disk) {
  for (auto& v : volumes) {
    bool found = v.device.whole && v.device.name == disk && v.problem.size() > 0;
    if (found) return kj::str("it ", v.problem);
  }
  return nullptr;
}

}  // namespace

void describeDisk(DiskOfVolumes& out, kj::ArrayPtr<Volume> volumes, const FoundOnDisk& found) {
  kj::Vector<unsigned> known;
  for (auto& v : volumes) {
    if (!isPartitionOf(v, out.facts.name)) continue;
    known.add(partitionNumber(v.device));
    for (auto& place : found.places) {
      bool same = place.number == known.back() && place.begin == v.device.begin;
      if (same) v.device.partitionName = kj::str(place.name);
    }
  }
  out.id = kj::str(found.tableId);
  out.unfit = unfitFor(found, known, out.systemDisk);
  for (auto& place : found.places) {
    out.partitions.add(
        DiskOfVolumes::Partition{.number = place.number,
                                 .name = kj::str(place.name),
                                 .begin = place.begin,
                                 .bytes = place.bytes,
                                 .id = kj::str(place.id),
                                 .unfinished = (place.attributes & kUnfinishedVolume) != 0});
  }
}

void describeUnreadDisk(DiskOfVolumes& out, kj::ArrayPtr<const Volume> volumes, kj::String reason) {
  for (auto& v : volumes) {
    if (!isPartitionOf(v, out.facts.name)) continue;
    out.partitions.add(DiskOfVolumes::Partition{.number = partitionNumber(v.device),
                                                .name = kj::str(v.device.partitionName),
                                                .begin = v.device.begin,
                                                .bytes = v.device.bytes});
  }
  out.unread = kj::mv(reason);
}

kj::Promise<void> describe(DiskOfVolumes& disk, kj::Vector<Volume>& volumes, LookAtDisk& look) {
  if (disk.facts.bytes == 0) {
    disk.unfit = kj::str("it has no medium");
    co_return;
  }
  KJ_IF_MAYBE (problem, problemOfDisk(volumes, disk.facts.name)) {
    co_return describeUnreadDisk(disk, volumes, kj::mv(*problem));
  }
  auto path = kj::str("/dev/", disk.facts.name);
  auto looking = kj::evalNow([&]() { return look(path); });
  co_await looking.then(
      [&](FoundOnDisk&& content) { describeDisk(disk, volumes, content); },
      [&](kj::Exception&& e) { describeUnreadDisk(disk, volumes, messageOf(e)); });
}

kj::String identityOf(kj::ArrayPtr<const Volume> volumes, kj::StringPtr disk) {
  uint64_t sequence = 0;
  for (auto& v : volumes) {
    if (v.device.whole && v.device.name == disk) sequence = v.device.sequence;
  }
  return kj::str(disk, "/", sequence);
}

kj::String keyOfAttempt(config::StorageVolume::Reader volume, kj::StringPtr disk) {
  auto words = capnp::canonicalize(volume);
  KJ_DEFER(zeroize(words.asBytes()));
  Sha256 digest;
  digest.add(words.asBytes());
  return kj::str(disk, " ", digest.hex());
}

VolumeRecord recordOf(kj::StringPtr label, kj::StringPtr disk, const FoundOnDisk& found) {
  for (auto& place : found.places) {
    bool known = place.name == label && place.id.size() > 0;
    if (known) return {kj::str(label), kj::str(found.tableId), kj::str(place.id)};
  }
  fail(ErrorKind::kUnavailable, kj::str(disk, " does not show the partition ", label));
}

Volume copyOf(const Volume& volume, kj::StringPtr name) {
  Volume copy;
  auto& device = volume.device;
  copy.device.name = kj::str(device.name);
  copy.device.disk = kj::str(device.disk);
  copy.device.partitionName = kj::str(name);
  copy.device.begin = device.begin;
  copy.device.bytes = device.bytes;
  copy.device.whole = device.whole;
  copy.device.readOnly = device.readOnly;
  copy.device.held = device.held;
  copy.device.sequence = device.sequence;
  KJ_IF_MAYBE (content, volume.content) {
    copy.content = Superblock{content->type, kj::str(content->label)};
  }
  copy.problem = kj::str(volume.problem);
  return copy;
}

kj::Vector<kj::String> ownLabels(capnp::List<config::StorageVolume>::Reader volumes,
                                 kj::ArrayPtr<const VolumeRecord> records) {
  kj::Vector<kj::String> labels;
  for (auto volume : volumes) labels.add(kj::str(volume.getId()));
  for (auto& record : records) labels.add(kj::str(record.label));
  return labels;
}

}  // namespace talos::machined
