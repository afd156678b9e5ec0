// The content of a disk on which a system is to be installed, and whether it may be overwritten.
// Pure: the caller passes in the content that was found.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/disk/installer/partition-layout.h"

namespace talos::install {

// Returns the size of a disk's head: its first two sectors, by which partition tables are
// recognized, and at least the first KiB, for other content. Our own table has no other content
// there before it is complete.
constexpr size_t headOf(unsigned sectorSize) {
  return kj::max(size_t{1024}, size_t{2} * sectorSize);
}

// The findings of a confined process (machined/confined/parser/disk-probe.h), and the facts from
// our own table.
struct Found : machined::FoundOnDisk {
  bool unknownData = false;  // the first sectors are not empty
  Installed installed = Installed::kNot;
};

// Returns why the disk must not be written to unless machine.install.wipe is true, with everything
// that was found; nullptr for an empty disk, and for the remains of an interrupted installation.
kj::Maybe<kj::String> worthKeeping(const Found& found);

}  // namespace talos::install
