// New machine configs and a talosconfig, for a new cluster or for that of a config, as somebody
// wishes them who need not be known. What is written is read again before it is handed out
// (common/config/generate.h): hence here, where reading costs nothing.
#pragma once

#include "rpc/parse.capnp.h"

namespace talos::parse {

// Throws InvalidArgument for a wish that makes no sense.
void answerGenerate(rpc::ParseRequest::Generate::Reader request, rpc::ParseAnswer::Builder out);

}  // namespace talos::parse
