// Files of a file system without a mount point: `folder` is the descriptor of a mount or of a
// folder in it. Written bytes are on the disk when sync(), or the function, returns. Everything
// blocks, and throws naming the file.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <sys/types.h>

#include "common/base/sha256.h"

namespace talos::install {

// Opens a file of this system: FailedPrecondition if it does not exist.
kj::AutoCloseFd openFile(kj::StringPtr path);
// Returns the size in bytes of a file or a device.
uint64_t sizeOf(int fd);
kj::Array<kj::byte> contentOf(kj::StringPtr path);

// A range of bytes of an open file or device.
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
  // `part` gets the bytes read as well. FailedPrecondition if `from` has fewer bytes.
  void addAll(FileRange from, kj::Maybe<Sha256&> part = nullptr);
  // Ends the file: no bytes can be added after it. Returns the digest of all bytes.
  kj::String sync();

 private:
  kj::StringPtr name;
  kj::AutoCloseFd fd;
  Sha256 digest;
};

void putFile(int folder, kj::StringPtr name, kj::ArrayPtr<const char> text, mode_t mode);
void copyFile(int folder, kj::StringPtr name, kj::StringPtr from);
void makeFolder(int above, kj::StringPtr name);  // keeps an existing one
void syncAll(int mount);

// Writes the early archive, then an archive with the root image (initramfs-archive.h). `parts` get
// the bytes read from both. Returns the digest of the whole file.
struct InitramfsParts {
  Sha256 early, image;
};
kj::String writeInitramfs(int folder, kj::StringPtr name, FileRange early, FileRange image,
                          kj::Maybe<InitramfsParts&> parts = nullptr);

}  // namespace talos::install
