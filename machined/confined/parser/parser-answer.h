// The answer to one request (rpc/parse.capnp), for whoever asks: the whole of what the confined
// process does, and what tests and fuzz targets do without it. What is wrong with the bytes is an
// answer too; nothing is thrown for it.
#pragma once

#include <kj/async-io.h>

#include "machined/confined/parser/superblock.h"
#include "machined/confined/parser/vmware-port.h"
#include "rpc/parse.capnp.h"

namespace talos::parse {

// All but `http`, `disk` and `lookUp`. `read` is called for `superblock` and `archive` only.
// `port`: to the hypervisor; none: that of this machine.
void answer(rpc::ParseRequest::Reader request, rpc::ParseAnswer::Builder out, ReadBytes read,
            kj::Maybe<PortCall> port = nullptr);

// Of `disk`, by its descriptor.
void answerDisk(int disk, rpc::ParseAnswer::Builder out);

// Of `lookUp`: what was found, or why nothing was.
void answerLookup(kj::ArrayPtr<const kj::String> found, const kj::Maybe<kj::Exception>& failure,
                  rpc::ParseAnswer::Builder out);

// Of `http`, over the connection to the server. `send` gets messages `doing`, `begins` and `piece`,
// the answer last.
using SendAnswer = kj::Function<void(kj::FunctionParam<void(rpc::ParseAnswer::Builder)> fill)>;
kj::Promise<void> answerHttp(rpc::ParseRequest::Http::Reader request,
                             kj::Own<kj::AsyncIoStream> connection, SendAnswer& send);

}  // namespace talos::parse
