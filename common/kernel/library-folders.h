// Folders with the loader and the shared libraries of an image's dynamic programs (rootfs/arch.sh),
// which a confined one may read. Each exists in every image for this architecture; a missing folder
// stops the wrapper that names it.
#pragma once

#include <kj/string.h>

namespace talos {

#if defined(__aarch64__)
inline constexpr kj::StringPtr kLibraryFolders[] = {"/usr/lib"_kj};
#else
inline constexpr kj::StringPtr kLibraryFolders[] = {"/usr/lib"_kj, "/usr/lib64"_kj};
#endif

}  // namespace talos
