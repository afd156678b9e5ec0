// The journal's memory file, which process 1 holds too (name "store").
//
// A file that cannot be the journal of a predecessor does not end the brain: read() says what is
// wrong with it and a new one replaces it. No journal gets larger than one that a successor would
// read.
//
// append() is whole or did not happen. Replacing the file by a compacted one takes a round trip to
// process 1, and a crash may come before, during or after it; so until process 1 has answered every
// record goes to both files, and whichever of them the successor finds has everything.
#pragma once

#include <capnp/common.h>
#include <kj/async.h>
#include <kj/io.h>

#include "machined/process1/process1.h"

namespace talos::machined {

// Compaction keeps a journal below four times the live records (kMostLiveBytes, store.h); the rest
// is for what is written while process 1 takes the compacted one.
constexpr size_t kLargestJournal = 160u << 20;  // bytes

class JournalFile {
 public:
  explicit JournalFile(Process1& process1);

  struct Found {
    kj::Array<capnp::word> words;  // whole ones
    kj::Maybe<kj::String> damage;  // why it cannot be read
  };
  // The predecessor's journal, if it left one. Never throws.
  kj::Maybe<Found> read();
  // Goes on behind so many bytes of the predecessor's file.
  void resume(size_t valid);
  // Appends to the file, and to the one that is about to replace it. Throws ResourceExhausted, also
  // when it would become larger than kLargestJournal, and then no file has changed.
  void append(kj::ArrayPtr<const kj::byte> record);
  // Makes `content` the journal. Resolves when process 1 holds it. One at a time.
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
