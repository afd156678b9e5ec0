// Finds the file system of a block device and its label in the device's bytes: ISO 9660 (with
// Joliet), UDF, FAT, XFS and ext2/3/4, and the head of a LUKS container, of which nothing more is
// read. The label of UDF is that of the ISO 9660 on the same disc; without ISO 9660 it is empty.
//
// Pure: the caller reads the bytes. They are foreign; for any bytes, the answer is one of these
// file systems or nullptr. After ECMA-119, ECMA-167, Microsoft's FAT specification, the XFS file
// system structure and the ext4 disk layout of the kernel's documentation.
#pragma once

#include <kj/array.h>
#include <kj/function.h>

#include "machined/confined/parser-client/probed-file-system.h"

namespace talos::parse {

// Reads bytes at an offset: fewer than requested at the end of the device, zero after its end or
// where the device cannot be read. Called for at most kMostSuperblockBytes at a time, and at most
// kMostSuperblockReads times (machined/confined/parser-client/foreign-bytes.h).
using ReadBytes = kj::Function<kj::Array<const kj::byte>(uint64_t offset, size_t size)>;
kj::Maybe<machined::Superblock> readSuperblock(ReadBytes read);

}  // namespace talos::parse
