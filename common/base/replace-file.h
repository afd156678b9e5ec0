// The steps of writeFileAtomically() (file.h), for a file that needs more than a mode, such as an
// owner.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/string.h>

namespace talos {

// `complete` gets the descriptor of the new file, which has its content and which only its owner
// can read until then. After a crash at any line, the name refers to the old file or the new one.
void replaceFile(kj::StringPtr path, kj::ArrayPtr<const char> content,
                 kj::FunctionParam<void(int fd)> complete);

}  // namespace talos
