// Events as lines of text, the form in which logs and the disk keep them: base64 of the message.
//
// Pure. A line may have been changed on the disk, so decoding it may fail.
#pragma once

#include <kj/function.h>
#include <kj/string.h>

#include "rpc/machine.capnp.h"

namespace talos {

// Returns the line without a newline.
kj::String encodeEvent(rpc::Event::Reader event);
// Returns false if the line is not a valid event.
bool decodeEvent(kj::ArrayPtr<const char> line, kj::FunctionParam<void(rpc::Event::Reader)> use);

}  // namespace talos
