// A secret that a program under another user reads from a file.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::machined {

// Writes a file, 0400, that only this user (and the group of the same number) can read, and that is
// complete at any moment: written under another name and renamed. A file with this content and
// owner stays as it is. Blocking.
void writeOwnedFile(kj::StringPtr path, kj::ArrayPtr<const kj::byte> content, unsigned uid);

}  // namespace talos::machined
