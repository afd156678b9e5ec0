// The steps of writeFileAtomically() (file.h), for a file whose owner and mode are not simply a
// mode.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/string.h>

namespace talos {

// `complete` gets the descriptor of the new file, which has its content and which only its owner
// can read until then. After a crash at any line, the old file or the new one has the name.
void replaceFile(kj::StringPtr path, kj::ArrayPtr<const char> content,
                 kj::FunctionParam<void(int fd)> complete);

}  // namespace talos
