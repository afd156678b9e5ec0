// A secret that a program under another user reads from a file.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::machined {

// Readable for this user (and its group's number the same) alone, 0400, and whole at any moment:
// written beside it and renamed. One that has this content and owner is left. Blocking.
void writeOwnedFile(kj::StringPtr path, kj::ArrayPtr<const kj::byte> content, unsigned uid);

}  // namespace talos::machined
