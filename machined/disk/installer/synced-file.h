// Files of a file system that is mounted nowhere: `folder` is the descriptor of a mount or of a
// folder in it. What is written here is on the disk when sync() returns, or the function does.
// Everything blocks, and throws naming the file.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <sys/types.h>

#include "common/base/sha256.h"

namespace talos::install {

// Of this system: FailedPrecondition when it is not there.
kj::AutoCloseFd openFile(kj::StringPtr path);
// Bytes of a file or a device.
uint64_t sizeOf(int fd);
kj::Array<kj::byte> contentOf(kj::StringPtr path);

// Bytes of a file or a device that is open.
struct FileRange {
  int fd;
  uint64_t begin, size;
};
FileRange wholeOf(int fd);

class NewFile {
 public:
  NewFile(int folder, kj::StringPtr name, mode_t mode);
  void add(kj::ArrayPtr<const char> text) { add(text.asBytes()); }
  void add(kj::ArrayPtr<const kj::byte> bytes);
  // `part` gets what was read as well. FailedPrecondition when there is less of it.
  void addAll(FileRange from, kj::Maybe<Sha256&> part = nullptr);
  // Then nothing can be added. The digest of all of it.
  kj::String sync();

 private:
  kj::StringPtr name;
  kj::AutoCloseFd fd;
  Sha256 digest;
};

void putFile(int folder, kj::StringPtr name, kj::ArrayPtr<const char> text, mode_t mode);
void copyFile(int folder, kj::StringPtr name, kj::StringPtr from);
void makeFolder(int above, kj::StringPtr name);  // or it is there
void syncAll(int mount);

// The early archive, and behind it one with the root image (initramfs-archive.h). `parts` get the
// bytes read of the two. Returns the digest of the whole.
struct InitramfsParts {
  Sha256 early, image;
};
kj::String writeInitramfs(int folder, kj::StringPtr name, FileRange early, FileRange image,
                          kj::Maybe<InitramfsParts&> parts = nullptr);

}  // namespace talos::install
