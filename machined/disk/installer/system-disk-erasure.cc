#include "machined/disk/installer/system-disk-erasure.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/disk/empty-partition.h"
#include "common/disk/volume-labels.h"
#include "common/memory/zeroize.h"
#include "common/text/texts.h"
#include "machined/disk/installer/file-systems.h"
#include "machined/disk/installer/locked-disk.h"

namespace talos::install {
namespace {

using Kind = EraseStep::Kind;
using machined::kMetaBytes;
using machined::MetaTag;
using machined::MetaValues;

constexpr uint64_t kMetaCopy = 256 * 1024;  // the first copy is read first
constexpr uint64_t kTableBytes = kMiB;      // at either end of the disk

// In the order of erasure.
constexpr kj::StringPtr kOrder[] = {kState, kEphemeral, kEfi, kBios, kBoot};

void addPartition(kj::Vector<EraseStep>& steps, kj::StringPtr label, const Place& place) {
  auto zeroed = label == kState       ? place.size
                : label == kEphemeral ? emptyHeadOf(place.size)
                                      : kj::min(place.size, kEmptyHead);
  steps.add(EraseStep{.kind = Kind::kZero, .what = label, .offset = place.offset, .size = zeroed});
  if (label == kEfi)
    steps.add(
        EraseStep{.kind = Kind::kFat, .what = label, .offset = place.offset, .size = place.size});
  if (label == kBoot)
    steps.add(EraseStep{
        .kind = Kind::kBootFileSystem, .what = label, .offset = place.offset, .size = place.size});
}

void addMeta(kj::Vector<EraseStep>& steps, const Place& meta) {
  steps.add(EraseStep{.kind = Kind::kZero,
                      .what = kMeta,
                      .offset = meta.offset + kMetaCopy,
                      .size = meta.size - kMetaCopy});
  steps.add(
      EraseStep{.kind = Kind::kZero, .what = kMeta, .offset = meta.offset, .size = kMetaCopy});
}

void addTable(kj::Vector<EraseStep>& steps, uint64_t tableEnd, unsigned sectorSize,
              uint64_t diskBytes, const Place& meta) {
  constexpr auto kTable = "partition table"_kj;
  steps.add(EraseStep{.kind = Kind::kUnname, .what = kTable, .offset = 0, .size = 0});
  steps.add(EraseStep{
      .kind = Kind::kZero, .what = kTable, .offset = diskBytes - kTableBytes, .size = kTableBytes});
  // On a disk that has grown since, the copy is at the previous end.
  if (tableEnd + sectorSize <= diskBytes) {
    steps.add(EraseStep{.kind = Kind::kZero,
                        .what = kTable,
                        .offset = tableEnd - kTableBytes,
                        .size = kTableBytes});
  }
  steps.add(EraseStep{.kind = Kind::kZero, .what = kTable, .offset = 0, .size = sectorSize});
  steps.add(EraseStep{
      .kind = Kind::kZero, .what = kTable, .offset = sectorSize, .size = kTableBytes - sectorSize});
  addMeta(steps, meta);
}

void unname(Disk& disk) {
  auto found = disk.table();
  KJ_IF_MAYBE (table, found) {
    begin(*table);
    disk.writeTable(*table);
  }
}

void changeMeta(Disk& disk, const EraseStep& step) {
  auto bytes = disk.read(step.offset, kMetaBytes);
  KJ_DEFER(zeroizeReceived(bytes));
  MetaValues values(bytes);
  eraseValues(step, values);
  for (auto& write : values.writes()) disk.write(step.offset + write.offset, write.bytes);
}

void carryOut(Disk& disk, const gpt::Table& table, const EraseStep& step) {
  auto node = [&](kj::StringPtr label) {
    return disk.node(KJ_ASSERT_NONNULL(find(table, label, disk.sectorSize())));
  };
  switch (step.kind) {
    case Kind::kZero:
      return disk.zero(step.offset, step.size);
    case Kind::kUnname:
      return unname(disk);
    case Kind::kFat:
      return makeFat(node(kEfi));
    case Kind::kBootFileSystem:
      return makeBootXfs(node(kBoot));
    case Kind::kOnlyMark:
    case Kind::kNoMark:
      return changeMeta(disk, step);
  }
}

}  // namespace

kj::Vector<EraseStep> eraseSteps(const gpt::Table& table, unsigned sectorSize, uint64_t diskBytes,
                                 kj::ArrayPtr<const kj::StringPtr> labels) {
  kj::Vector<EraseStep> steps;
  auto require = [&](kj::StringPtr label) {
    KJ_IF_MAYBE (place, find(table, label, sectorSize)) return *place;
    fail(ErrorKind::kNotFound, kj::str("the disk has no partition ", label));
  };
  for (auto label : labels) require(label);
  bool all = labels.size() == 0;
  for (auto label : kOrder) {
    // Resetting the whole disk erases the data; the rest cannot be reached without the table.
    bool secret = label == kState || label == kEphemeral;
    if (all ? secret && find(table, label, sectorSize) != nullptr : contains(labels, label)) {
      addPartition(steps, label, require(label));
    }
  }
  for (auto& p : table.partitions) {
    if (!all || !isVolumeLabel(p.name)) continue;
    uint64_t size = (p.last + 1 - p.first) * sectorSize;
    steps.add(EraseStep{.kind = Kind::kZero,
                        .what = p.name,
                        .offset = p.first * sectorSize,
                        .size = kj::min(size, kEmptyHead)});
  }
  auto meta = require(kMeta);
  if (all || contains(labels, kMeta)) {
    steps.add(EraseStep{
        .kind = Kind::kOnlyMark, .what = kMeta, .offset = meta.offset, .size = meta.size});
  }
  if (all) {
    addTable(steps, table.sectors * sectorSize, sectorSize, diskBytes, meta);
  } else if (contains(labels, kMeta)) {
    addMeta(steps, meta);
  } else {
    steps.add(EraseStep{.kind = Kind::kNoMark,
                        .what = kMeta,
                        .offset = meta.offset,
                        .size = meta.size,
                        .keys = contains(labels, kState)});
  }
  return steps;
}

void eraseValues(const EraseStep& step, MetaValues& values) {
  constexpr auto kMark = static_cast<uint32_t>(MetaTag::kReset),
                 kStateKeys = static_cast<uint32_t>(MetaTag::kStateEncryption);
  for (auto tag : values.tags()) {
    bool goes = (tag == kMark) == (step.kind == Kind::kNoMark) || (step.keys && tag == kStateKeys);
    if (goes) values.remove(tag);
  }
}

bool erase(kj::StringPtr path, kj::ArrayPtr<const kj::StringPtr> labels, Say& say,
           Confinement& confinement) {
  Disk disk(path);
  confinement.enter(StepKind::kDisk, pathsToFormat(disk.nodes()));
  auto table = disk.table();
  KJ_IF_MAYBE (t, table) {
    kj::StringPtr lastReported;
    for (auto& step : eraseSteps(*t, disk.sectorSize(), disk.size(), labels)) {
      bool erases = step.kind != Kind::kOnlyMark && step.kind != Kind::kNoMark;
      if (erases && lastReported != step.what) say(kj::str("erasing ", step.what, " of ", path));
      if (erases) lastReported = step.what;
      carryOut(disk, *t, step);
    }
    disk.rereadPartitions();
    return true;
  }
  return false;
}

}  // namespace talos::install
