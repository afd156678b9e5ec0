// Answers one request (rpc/parse.capnp): all of what the confined process does, callable by tests
// and fuzz targets without a process. An error in the bytes is an answer too; nothing is thrown for
// it.
#pragma once

#include <kj/async-io.h>
#include <kj/timer.h>

#include "machined/confined/parser/superblock.h"
#include "machined/confined/parser/vmware-port.h"
#include "rpc/parse.capnp.h"

namespace talos::parse {

// Answers all requests but `http`, `kms`, `disk` and `lookUp`. Calls `read` for `superblock` and
// `archive` only. `port`: the port to the hypervisor; nullptr: that of this machine.
void answer(rpc::ParseRequest::Reader request, rpc::ParseAnswer::Builder out, ReadBytes read,
            kj::Maybe<PortCall> port = nullptr);

// Answers `disk` by the disk's descriptor.
void answerDisk(int disk, rpc::ParseAnswer::Builder out);

// Answers `lookUp` with the addresses found, or with the failure.
void answerLookup(kj::ArrayPtr<const kj::String> found, const kj::Maybe<kj::Exception>& failure,
                  rpc::ParseAnswer::Builder out);

// Answers `http` over the connection to the server. `send` gets messages `doing`, `begins` and
// `piece`, the answer last.
using SendAnswer = kj::Function<void(kj::FunctionParam<void(rpc::ParseAnswer::Builder)> fill)>;
kj::Promise<void> answerHttp(rpc::ParseRequest::Http::Reader request,
                             kj::Own<kj::AsyncIoStream> connection, SendAnswer& send);

// Answers `kms` over the connection to the key server, in the same way.
kj::Promise<void> answerKms(kj::Timer& timer, rpc::ParseRequest::Kms::Reader request,
                            kj::Own<kj::AsyncIoStream> connection, SendAnswer& send);

}  // namespace talos::parse
