// Where an image has the loader and the shared libraries of the programs that need some
// (rootfs/arch.sh): the folders that a confined one may read. Each is in every image for this
// architecture; a folder that is missing stops the wrapper that names it.
#pragma once

#include <kj/string.h>

namespace talos {

#if defined(__aarch64__)
inline constexpr kj::StringPtr kLibraryFolders[] = {"/usr/lib"_kj};
#else
inline constexpr kj::StringPtr kLibraryFolders[] = {"/usr/lib"_kj, "/usr/lib64"_kj};
#endif

}  // namespace talos
