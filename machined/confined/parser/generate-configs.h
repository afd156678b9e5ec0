// Generates machine configs and a talosconfig, for a new cluster or for that of a config. The
// request may come from anybody. The result is read again before it is handed out
// (common/config/config-generate.h): therefore it is generated in this process, where reading costs
// nothing.
#pragma once

#include "rpc/parse.capnp.h"

namespace talos::parse {

// Throws InvalidArgument for a request that makes no sense.
void answerGenerate(rpc::ParseRequest::Generate::Reader request, rpc::ParseAnswer::Builder out);

}  // namespace talos::parse
