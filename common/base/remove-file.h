// Removes files durably: the counterpart of writeFileAtomically() (file.h).
#pragma once

#include <kj/string.h>

namespace talos {

// Removes the file durably: its folder is synced, so no power cut restores the file afterwards. If
// the file is absent, nothing is written. Throws kj::Exception naming the path, or the folder.
void removeDurably(kj::StringPtr path);

}  // namespace talos
