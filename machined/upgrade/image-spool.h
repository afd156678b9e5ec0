// An archive with an image on its way to a slot: a file without a name on EPHEMERAL, so that it
// takes no memory, and that nothing is left of it after a crash or a power cut.
//
// All of it waits for the disk on the thread pool, and a disk that cannot be read is an error like
// any other: nothing is mapped. A job that was given up may still write what it was given: where it
// belongs, or into a file that was given up as well.
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
  // In this folder.
  static kj::Promise<kj::Own<ImageSpool>> make(UvLoop& uv, kj::StringPtr folder);
  struct File : public kj::AtomicRefcounted {
    kj::String folder;
    kj::AutoCloseFd fd;  // once something was to be written
  };
  ImageSpool(UvLoop& uv, kj::Own<File> file) : uv(uv), file(kj::mv(file)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ImageSpool);

  // FailedPrecondition, with numbers, when the disk has no room for so much.
  kj::Promise<void> reserve(uint64_t bytes);
  // Behind what is there. One at a time. FailedPrecondition when the disk is full.
  kj::Promise<void> add(kj::Array<kj::byte> bytes);
  void startOver();
  uint64_t size() const { return filled; }

  // SHA-256 of all of it, in hex.
  kj::Promise<kj::String> digest();
  // True for a signature of all of it. FailedPrecondition for one that would need more memory than
  // `mostWhole`.
  kj::Promise<bool> hasSignature(kj::Own<pki::VerifyKey> key, kj::Array<kj::byte> signature,
                                 size_t mostWhole = kMostWholeImage);
  // Fewer bytes at the end.
  kj::Promise<kj::Array<const kj::byte>> read(uint64_t offset, size_t size);
  int descriptor() const { return file->fd; }

 private:
  UvLoop& uv;
  kj::Own<File> file;
  uint64_t filled = 0;
};

}  // namespace talos::machined
