// The content of a disk that a system is to be installed on, and the decision if that may be lost.
// Pure: the caller passes in what was found on the disk.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/disk/installer/partition-layout.h"

namespace talos::install {

// Where partition tables begin, which are known by the first two sectors, and what else may be in
// the first KiB; our own has nothing else there before it is whole.
constexpr size_t headOf(unsigned sectorSize) {
  return kj::max(size_t{1024}, size_t{2} * sectorSize);
}

// The findings of a confined process (machined/confined/parser/disk-probe.h), and what is known
// from our own table.
struct Found : machined::FoundOnDisk {
  bool unknownData = false;  // the first sectors are not empty
  Installed installed = Installed::kNot;
};

// Why the disk must not be written to unless machine.install.wipe is true: everything that was
// found. None for an empty disk, and for what an installation that was cut off has left.
kj::Maybe<kj::String> worthKeeping(const Found& found);

}  // namespace talos::install
