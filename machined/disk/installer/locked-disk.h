// A whole disk as the installer works on it. Everything here blocks; errors name the disk.
//
// No other program of this system writes to it meanwhile: the disk is locked. A disk with mounted
// partitions, or that is part of another device, is refused, except for work that needs only one
// partition. A write is on the disk when it
// returns.
#pragma once

#include <kj/function.h>
#include <kj/io.h>

#include "machined/disk/installer/disk-content.h"

namespace talos::install {

bool isZero(kj::ArrayPtr<const kj::byte> bytes);

// The use of a whole disk, as seen before the confinement.
struct UseOfDisk {
  kj::Maybe<kj::String> problem;  // "it is in use by md0"; nullptr if nothing uses it
};
UseOfDisk useOfDisk(kj::StringPtr path);
// "/dev/vda3" -> "vda", as sysfs says it. FailedPrecondition for what is no partition.
kj::String diskOfPartition(kj::StringPtr node);

class Disk {
 public:
  // A disk for kShared may have mounted partitions.
  enum class Use { kAlone, kShared };
  // FailedPrecondition if it is in use, NotFound if no such block device exists.
  explicit Disk(kj::StringPtr path, Use use = Use::kAlone);
  KJ_DISALLOW_COPY_AND_MOVE(Disk);

  kj::StringPtr name() const { return path; }
  uint64_t size() const { return bytes; }
  unsigned sectorSize() const { return sector; }

  kj::Array<const kj::byte> read(uint64_t offset, size_t size);
  void write(uint64_t offset, kj::ArrayPtr<const kj::byte> data);
  // Writes zeros, by the device itself if possible. `progress`: gets the bytes done after each
  // part.
  void zero(
      uint64_t offset, uint64_t size,
      kj::FunctionParam<void(uint64_t done)> progress = [](uint64_t) {});

  kj::Maybe<gpt::Table> table();
  // Replaces the table, or writes the first one.
  void writeTable(const gpt::Table& table);
  void setTable(const gpt::Table& table);  // and makes the kernel read it
  void rereadPartitions();
  // Makes the kernel show a partition of the table. While another partition of the disk is in use,
  // the kernel does not read the table, so the node has no name of its partition until a boot.
  void show(const Place& place);
  // Tells the kernel that a partition has grown.
  void resize(const Place& place);
  kj::String node(const Place& place) const;

  // Adds the facts from the table and the first sectors to `onDisk`.
  Found look(machined::FoundOnDisk onDisk);
  // Returns the nodes of its partitions, as far as the kernel has them.
  kj::Vector<kj::String> nodes() const;

 private:
  kj::String path;
  kj::AutoCloseFd fd;
  uint64_t bytes = 0;
  unsigned sector = 0;
};

}  // namespace talos::install
