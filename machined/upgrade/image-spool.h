// Stores an archive with an image on its way to a slot: in a file without a name on EPHEMERAL, so
// that it takes no memory, and nothing is left of it after a crash or a power cut.
//
// All operations wait for the disk on the thread pool. An unreadable disk is an error like any
// other, because nothing is mapped. An abandoned job may still write its bytes: to their right
// place, or into a file that was abandoned as well.
#pragma once

#include <kj/io.h>
#include <kj/refcount.h>

#include "common/tls/signature.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

// A signature by Ed25519 needs the image in memory.
constexpr size_t kMostWholeImage = 512u << 20;

class ImageSpool {
 public:
  // Makes a spool in this folder.
  static kj::Promise<kj::Own<ImageSpool>> make(UvLoop& uv, kj::StringPtr folder);
  struct File : public kj::AtomicRefcounted {
    kj::String folder;
    kj::AutoCloseFd fd;  // opened with the first write
  };
  ImageSpool(UvLoop& uv, kj::Own<File> file) : uv(uv), file(kj::mv(file)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ImageSpool);

  // Reserves room for `bytes`. FailedPrecondition, with numbers, when the disk has too little.
  kj::Promise<void> reserve(uint64_t bytes);
  // Appends bytes. One call at a time. FailedPrecondition when the disk is full.
  kj::Promise<void> add(kj::Array<kj::byte> bytes);
  void startOver();
  uint64_t size() const { return filled; }

  // Returns the SHA-256 of the whole file, in hex.
  kj::Promise<kj::String> digest();
  // Returns true for a signature of the whole file. FailedPrecondition if this needs more memory
  // than `mostWhole`.
  kj::Promise<bool> hasSignature(kj::Own<pki::VerifyKey> key, kj::Array<kj::byte> signature,
                                 size_t mostWhole = kMostWholeImage);
  // Returns fewer bytes at the end.
  kj::Promise<kj::Array<const kj::byte>> read(uint64_t offset, size_t size);
  int descriptor() const { return file->fd; }

 private:
  UvLoop& uv;
  kj::Own<File> file;
  uint64_t filled = 0;
};

}  // namespace talos::machined
