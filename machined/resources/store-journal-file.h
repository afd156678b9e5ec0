// The journal's memory file, which process 1 holds too (name "store").
//
// A damaged journal does not stop the brain: read() reports the damage, and a new journal replaces
// the file. append() refuses to grow a journal beyond the size that a successor reads.
//
// append() takes place as a whole or not at all. Replacing the file by a compacted one takes a
// round trip to process 1, and a crash may come before, during or after it. So every record is
// written to both files until process 1 has answered, and the successor finds all records in either
// file.
#pragma once

#include <capnp/common.h>
#include <kj/async.h>
#include <kj/io.h>

#include "machined/process1/process1.h"

namespace talos::machined {

// Compaction keeps a journal below four times the live records (kMostLiveBytes, store.h); the rest
// is for records that are written until process 1 holds the compacted journal.
constexpr size_t kLargestJournal = 160u << 20;  // bytes

class JournalFile {
 public:
  explicit JournalFile(Process1& process1);

  struct Found {
    kj::Array<capnp::word> words;  // whole words
    kj::Maybe<kj::String> damage;  // the reason why it cannot be read
  };
  // Returns the predecessor's journal, if there is one. Never throws.
  kj::Maybe<Found> read();
  // Continues the predecessor's file after its first `valid` bytes.
  void resume(size_t valid);
  // Appends to the file, and to the file that is about to replace it. Throws ResourceExhausted,
  // also if the file would exceed kLargestJournal; then no file has changed.
  void append(kj::ArrayPtr<const kj::byte> record);
  // Makes `content` the journal. Resolves when process 1 holds it. Only one call may run at a time.
  kj::Promise<void> replace(kj::ArrayPtr<const kj::byte> content);
  bool replacing() const { return next != nullptr; }
  size_t size() const { return current.size; }

 private:
  struct File {
    kj::AutoCloseFd fd;
    size_t size = 0;
    void append(kj::ArrayPtr<const kj::byte> bytes);
    void cut(size_t to);
  };
  Process1& process1;
  File current;
  kj::Maybe<File> next;

  kj::Array<capnp::word> readWhole(int fd);
};

}  // namespace talos::machined
