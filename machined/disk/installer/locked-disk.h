// A whole disk as the installer works on it. Everything here blocks; errors name the disk.
//
// Nobody else of this system writes to it meanwhile: it is locked, and a disk that something is
// mounted from, or that is part of something, is refused. A write is on the disk when it returns.
#pragma once

#include <kj/function.h>
#include <kj/io.h>

#include "machined/disk/installer/disk-content.h"

namespace talos::install {

bool isZero(kj::ArrayPtr<const kj::byte> bytes);

class Disk {
 public:
  // FailedPrecondition when it is in use, NotFound when there is no such block device.
  explicit Disk(kj::StringPtr path);
  KJ_DISALLOW_COPY_AND_MOVE(Disk);

  kj::StringPtr name() const { return path; }
  uint64_t size() const { return bytes; }
  unsigned sectorSize() const { return sector; }

  kj::Array<const kj::byte> read(uint64_t offset, size_t size);
  void write(uint64_t offset, kj::ArrayPtr<const kj::byte> data);
  // Zeros, by the device itself where it can. `progress`: after each part, the bytes that are done.
  void zero(
      uint64_t offset, uint64_t size,
      kj::FunctionParam<void(uint64_t done)> progress = [](uint64_t) {});

  kj::Maybe<gpt::Table> table();
  // Replaces the one that is there, or writes the first one.
  void writeTable(const gpt::Table& table);
  void setTable(const gpt::Table& table);  // and makes the kernel read it
  void rereadPartitions();
  kj::String node(const Place& place) const;

  // With what is known from the table and the first sectors.
  Found look(machined::FoundOnDisk onDisk);
  // Of its partitions, as far as the kernel has them.
  kj::Vector<kj::String> nodes() const;

 private:
  kj::String path;
  kj::AutoCloseFd fd;
  uint64_t bytes = 0;
  unsigned sector = 0;
};

}  // namespace talos::install
