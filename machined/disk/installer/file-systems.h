// The file systems of a node, made by mkfs on a partition's node or in a file of their size,
// whatever it held before. Blocking; Internal with what mkfs said. Cut off, the partition has none
// that can be mounted.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::install {

// The programs that do it.
constexpr kj::StringPtr kMkfsXfs = "/usr/sbin/mkfs.xfs"_kj, kMkfsFat = "/usr/sbin/mkfs.fat"_kj;
constexpr kj::StringPtr kFormatters[] = {kMkfsXfs, kMkfsFat};

void makeXfs(kj::StringPtr node, kj::StringPtr label);
// Without what was added to XFS later than the boot loader learned to read it. `prototype`: a file
// that lists its content (mkfs.xfs(8), option -p); empty: there is none.
void makeBootXfs(kj::StringPtr node, kj::StringPtr prototype = "");
void makeFat(kj::StringPtr node);

}  // namespace talos::install
