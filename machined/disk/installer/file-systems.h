// Makes the file systems of a node with mkfs, on a partition's node or in a file of their size,
// whatever it held before. Blocking; Internal with the messages of mkfs. An interrupted call leaves
// no file system that can be mounted.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::install {

// Runs a program that makes a file system to its end; it never outlives this process.
// Throws Internal with the program's output if it fails. `environment`: all of its "NAME=value".
void runTool(kj::ArrayPtr<const kj::StringPtr> command,
             kj::ArrayPtr<const kj::StringPtr> environment = nullptr);

// Programs that make file systems.
constexpr kj::StringPtr kMkfsXfs = "/usr/sbin/mkfs.xfs"_kj, kMkfsFat = "/usr/sbin/mkfs.fat"_kj;
constexpr kj::StringPtr kFormatters[] = {kMkfsXfs, kMkfsFat};

void makeXfs(kj::StringPtr node, kj::StringPtr label);
// Makes an XFS without the features that were added after the boot loader learned to read XFS.
// `more`: further options of mkfs.xfs(8).
void makeBootXfs(kj::StringPtr node, kj::ArrayPtr<const kj::StringPtr> more = nullptr);
// `more`: further options of mkfs.fat(8), `environment` as runTool() takes it.
void makeFat(kj::StringPtr node, kj::ArrayPtr<const kj::StringPtr> more = nullptr,
             kj::ArrayPtr<const kj::StringPtr> environment = nullptr);

}  // namespace talos::install
