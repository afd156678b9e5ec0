#include "machined/disk/volumes/volume-records.h"

#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/disk/volume-labels.h"

namespace talos::machined {
namespace {

constexpr size_t kMostRecord = 256;

bool isId(kj::StringPtr text) {
  constexpr size_t kId = 36;  // as of RFC 9562
  for (char c : text) {
    bool fits =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '-';
    if (!fits) return false;
  }
  return text.size() == kId;
}

// "DISK PARTITION", and a line break.
VolumeRecord parseRecord(kj::StringPtr label, kj::StringPtr text) {
  KJ_IF_MAYBE (space, text.findFirst(' ')) {
    KJ_IF_MAYBE (end, text.findFirst('\n')) {
      auto from = kj::min(*space + 1, *end);
      VolumeRecord record{kj::str(label), kj::heapString(text.slice(0, *space)),
                          kj::heapString(text.slice(from, *end))};
      if (isId(record.disk) && isId(record.partition)) return record;
    }
  }
  return {kj::str(label), kj::String(), kj::String()};
}

}  // namespace

kj::Vector<VolumeRecord> readVolumeRecords(kj::StringPtr folder) {
  kj::Vector<VolumeRecord> records;
  for (auto& name : namesIn(folder)) {
    bool label = isVolumeLabel(name) && name.findFirst('.') == nullptr;
    if (!label) continue;  // left by a cut: a label has no dot
    KJ_IF_MAYBE (text, tryReadFile(kj::str(folder, "/", name), kMostRecord)) {
      records.add(parseRecord(name, *text));
    }
  }
  return records;
}

void writeVolumeRecord(kj::StringPtr folder, const VolumeRecord& record) {
  makeDirectories(folder, 0700);
  writeFileAtomically(kj::str(folder, "/", record.label),
                      kj::str(record.disk, " ", record.partition, "\n"), 0600);
}

void dropVolumeRecord(kj::StringPtr folder, kj::StringPtr label) {
  removeDurably(kj::str(folder, "/", label));
}

kj::Promise<kj::Vector<VolumeRecord>> StoredRecords::read() {
  KJ_IF_MAYBE (path, folder()) {
    return uv.blocking([path = kj::mv(*path)]() { return readVolumeRecords(path); });
  }
  return kj::Vector<VolumeRecord>();
}

kj::Promise<void> StoredRecords::write(VolumeRecord record) {
  KJ_IF_MAYBE (path, folder()) {
    return uv.blocking(
        [path = kj::mv(*path), record = kj::mv(record)]() { writeVolumeRecord(path, record); });
  }
  return kj::READY_NOW;
}

kj::Promise<void> StoredRecords::keep(VolumeRecord record, kj::ArrayPtr<const VolumeRecord> known) {
  for (auto& old : known) {
    bool same =
        old.label == record.label && old.disk == record.disk && old.partition == record.partition;
    if (same) return kj::READY_NOW;
  }
  return write(kj::mv(record));
}

kj::Promise<void> StoredRecords::dropOthers(kj::Vector<kj::String> labels) {
  KJ_IF_MAYBE (path, folder()) {
    return uv.blocking([path = kj::mv(*path), labels = kj::mv(labels)]() {
      for (auto& record : readVolumeRecords(path)) {
        bool wanted = false;
        for (auto& label : labels) wanted = wanted || label == record.label;
        if (!wanted) dropVolumeRecord(path, record.label);
      }
    });
  }
  return kj::READY_NOW;
}

kj::String textOfMissing(const VolumeRecord& record) {
  auto which = record.partition.size() == 0
                   ? kj::String()
                   : kj::str(" ", record.partition, " on the disk ", record.disk);
  return kj::str("its partition", which,
                 " is missing; connect that disk, or, to make the volume again without its data, ",
                 "remove its document, apply the config, and add the document again");
}

}  // namespace talos::machined
