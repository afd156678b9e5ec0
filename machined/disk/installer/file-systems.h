// The file systems of a node, made by mkfs on a partition's node, whatever it held before.
// Blocking; Internal with what mkfs said. Cut off, the partition has none that can be mounted.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::install {

void makeXfs(kj::StringPtr node, kj::StringPtr label);
// Without what was added to XFS later than the boot loader learned to read it.
void makeBootXfs(kj::StringPtr node);
void makeFat(kj::StringPtr node);

}  // namespace talos::install
