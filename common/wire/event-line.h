// Events as lines of text, as logs and the disk keep them: base64 of the message.
//
// Pure. A line may be foreign: a disk may have kept it.
#pragma once

#include <kj/function.h>
#include <kj/string.h>

#include "rpc/machine.capnp.h"

namespace talos {

// Without a newline.
kj::String encodeEvent(rpc::Event::Reader event);
// False for what is no event.
bool decodeEvent(kj::ArrayPtr<const char> line, kj::FunctionParam<void(rpc::Event::Reader)> use);

}  // namespace talos
