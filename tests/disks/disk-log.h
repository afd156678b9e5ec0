// Writes a recording of a machine's disks: their content at its start, and every write and flush
// since, in their order. From it tests make the disks as a power cut at any of the writes leaves
// them (tests/cuts), any number of times, without the machine.
//
// The file is a LogHead, then records: each a LogRecord, followed for kContent and kWrite by
// `length` bytes; numbers are those of the host's processor. First comes a kDisk for each disk,
// then a kContent for each piece that is not zero; then the operations. An operation is recorded
// after it was done and before it is answered. A truncated file is valid up to its last whole
// record.
//
// It contains the content of the disks, with secrets: its mode is 0600.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

#include "tests/disks/volatile-disk.h"

namespace talos::disk {

struct LogHead {
  char magic[8] = {'d', 'i', 's', 'k', 'l', 'o', 'g', '1'};
};

enum class LogKind : uint32_t { kDisk, kContent, kWrite, kZero, kFlush };

struct LogRecord {
  LogKind kind;
  uint32_t disk;  // counted from 0
  uint64_t offset = 0;
  uint64_t length = 0;  // of kDisk: its size
  uint64_t durable = 0;
};

class DiskLog {
 public:
  // Creates the file. Throws FailedPrecondition if it exists.
  DiskLog(kj::StringPtr path, uint64_t limit);
  KJ_DISALLOW_COPY_AND_MOVE(DiskLog);

  struct Progress {
    kj::StringPtr path, problem;
    uint64_t events, writes, bytes;
  };
  Progress progress() const {
    return {.path = path, .problem = problem, .events = events, .writes = writes, .bytes = bytes};
  }

  // Must be called first. Throws ResourceExhausted if the content is larger than the limit.
  void addDisks(kj::ArrayPtr<Medium*> media);
  // Never throws: an operation that cannot be recorded ends the recording, with a problem; the disk
  // continues.
  void add(const LogRecord& record, kj::ArrayPtr<const kj::byte> bytes = nullptr) noexcept;

 private:
  kj::String path;
  kj::AutoCloseFd file;
  uint64_t limit, bytes = 0, events = 0, writes = 0;
  kj::String problem;

  void addContent(uint32_t disk, Medium& medium);
  void put(const LogRecord& record, kj::ArrayPtr<const kj::byte> data);
  void put(kj::ArrayPtr<const kj::byte> data);
};

}  // namespace talos::disk
