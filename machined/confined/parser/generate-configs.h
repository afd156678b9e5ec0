// Generates machine configs and a talosconfig, for a new cluster or for that of a config. Any
// client may send the request. The result is read again before it is returned
// (common/config/config-generate.h), so it is generated in this process, where reading costs
// nothing.
#pragma once

#include "rpc/parse.capnp.h"

namespace talos::parse {

// Throws InvalidArgument for an invalid request.
void answerGenerate(rpc::ParseRequest::Generate::Reader request, rpc::ParseAnswer::Builder out);

}  // namespace talos::parse
