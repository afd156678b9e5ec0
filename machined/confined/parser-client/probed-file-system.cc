#include "machined/confined/parser-client/probed-file-system.h"

namespace talos::machined {

kj::StringPtr nameOf(FileSystem type) {
  switch (type) {
    case FileSystem::kIso9660:
      return "iso9660";
    case FileSystem::kVfat:
      return "vfat";
    case FileSystem::kXfs:
      return "xfs";
    case FileSystem::kExt4:
      return "ext4";
    case FileSystem::kLuks:
      return "crypto_LUKS";
    case FileSystem::kUdf:
      return "udf";
  }
  return "unknown";
}

}  // namespace talos::machined
