// Finds the file system of a block device and its label in the bytes of the device: ISO 9660 (with
// Joliet), UDF, FAT, XFS and ext2/3/4, and the head of a LUKS container, of which nothing more is
// read. The label of UDF is that of the ISO 9660 that is on the same disc; without one it is empty.
//
// Pure: whoever calls it brings the bytes. They are foreign; whatever they are, the answer is one
// of these file systems or none. After ECMA-119, ECMA-167, Microsoft's FAT specification, the XFS
// file system structure and the ext4 disk layout of the kernel's documentation.
#pragma once

#include <kj/array.h>
#include <kj/function.h>

#include "machined/confined/parser-client/probed-file-system.h"

namespace talos::parse {

// `read` gives the bytes at an offset: fewer than asked for at the end of the device, none behind
// it or where the device cannot be read. It is asked for kMostSuperblockBytes at most at a time,
// kMostSuperblockReads times at most (machined/confined/parser-client/foreign-bytes.h).
using ReadBytes = kj::Function<kj::Array<const kj::byte>(uint64_t offset, size_t size)>;
kj::Maybe<machined::Superblock> readSuperblock(ReadBytes read);

}  // namespace talos::parse
