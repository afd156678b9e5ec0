// Removes files durably: the counterpart of writeFileAtomically() (file.h).
#pragma once

#include <kj/string.h>

namespace talos {

// When it returns, no power cut brings the file back: its folder was synced. Absent is fine, and
// then nothing is written. Throws kj::Exception naming the path, or the folder.
void removeDurably(kj::StringPtr path);

}  // namespace talos
