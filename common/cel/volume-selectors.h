// The selectors of volumes' documents, as expressions in CEL: of the disk that gets a volume, and
// of a volume that exists. docs/config-documents.md lists their variables. Pure.
#pragma once

#include "common/cel/cel-program.h"

namespace talos::cel {

// Properties of a disk in expressions: disk.size. Empty texts are unknown.
struct DiskProperties {
  uint64_t size = 0, ioSize = 0, sectorSize = 0;
  bool readOnly = false, rotational = false, cdrom = false;
  kj::StringPtr model, serial, modalias, wwid, uuid, busPath, subSystem, transport, devPath;
  bool systemDisk = false;
};
// Properties of a volume in expressions: volume.label.
struct VolumeProperties {
  kj::StringPtr name, label, partitionLabel, type, devPath, parentDevPath;
  uint64_t size = 0, offset = 0, partitionIndex = 0;
};

Compiled compileDiskSelector(kj::StringPtr text);
Compiled compileVolumeSelector(kj::StringPtr text);

// Each returns whether the selector holds; an expression that cannot be evaluated holds for none.
bool selects(const Program& selector, const DiskProperties& disk);
bool selects(const Program& selector, const VolumeProperties& volume, const DiskProperties& disk);

// KiB to EiB and kB to EB.
std::map<std::string, Value> unitConstants();

}  // namespace talos::cel
