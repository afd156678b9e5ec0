// The journal's memory file, which process 1 holds too (name "store").
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

class JournalFile {
 public:
  explicit JournalFile(Process1& process1);

  // The predecessor's whole words, or nothing.
  kj::Array<capnp::word> read();
  // Goes on behind so many bytes of the predecessor's file.
  void resume(size_t valid);
  // Appends to the file, and to the one that is about to replace it. Throws ResourceExhausted, and
  // then no file has changed.
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
};

}  // namespace talos::machined
