// Which file system a block device carries and what it is called, told from its bytes: ISO 9660
// (with Joliet), FAT, XFS and ext2/3/4, and the head of a LUKS container, of which nothing more is
// read.
//
// Pure: whoever calls it brings the bytes. They are foreign; whatever they are, the answer is one
// of these file systems or none. After ECMA-119, Microsoft's FAT specification, the XFS file system
// structure and the ext4 disk layout of the kernel's documentation.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/string.h>

namespace talos::machined {

enum class FileSystem { kIso9660, kVfat, kXfs, kExt4, kLuks };
kj::StringPtr nameOf(FileSystem type);  // as mount(2) calls it: "iso9660", "vfat" …

struct Superblock {
  FileSystem type;
  kj::String label;  // as it stands there, without the padding; UTF-8, one line, may be empty
};

// `read` gives the bytes at an offset: fewer than asked for at the end of the device, none behind
// it or where the device cannot be read. It is asked for 64 KiB at most at a time, a dozen times at
// most.
using ReadBytes = kj::Function<kj::Array<const kj::byte>(uint64_t offset, size_t size)>;
kj::Maybe<Superblock> readSuperblock(ReadBytes read);

}  // namespace talos::machined
