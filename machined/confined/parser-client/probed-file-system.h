// The file system of a block device and its label, as machined/confined/parser finds them in the
// device's bytes.
#pragma once

#include <kj/string.h>

namespace talos::machined {

enum class FileSystem { kIso9660, kVfat, kXfs, kExt4, kLuks, kUdf };
constexpr unsigned kFileSystems = 6;
kj::StringPtr nameOf(FileSystem type);  // as mount(2) calls it: "iso9660", "vfat" …

struct Superblock {
  FileSystem type;
  kj::String label;  // as on the device, without the padding; UTF-8, one line, may be empty
};

}  // namespace talos::machined
