// Seals or unseals the key of a volume with a key server (KMS) on an open connection: TLS if the
// call says so, then gRPC with the methods Seal and Unseal of sidero.kms.KMSService. A request is
// {1: UUID of the machine, 2: bytes}, an answer {1: bytes}.
//
// The server is foreign. It may answer with other bytes than it sealed: the reference server does,
// instead of an error, for a machine that it does not know. So a key that it has sealed is unsealed
// before it is returned, and must be the same. Keeps no state outside of its process.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::parse {

// Returns the sealed key, 1 to kMostKmsSealed bytes, or for a call with UserData the key, which has
// kKmsSecret bytes. `progress` gets what the call waits for. Rejects with Unauthenticated if the
// server's certificate is refused, FailedPrecondition if the UserData has no sealed key or the
// server does not return the key that it has sealed, the server's own error, InvalidArgument for an
// answer of another size, DeadlineExceeded.
kj::Promise<kj::Array<kj::byte>> callKms(kj::Timer& timer, kj::Own<kj::AsyncIoStream> connection,
                                         const machined::KmsCall& call,
                                         kj::Function<void(kj::StringPtr doing)> progress);

// Returns the sealed key in the UserData of a token: {"sealedData":"…"}, in base64. Throws
// FailedPrecondition. Pure, as is the next one.
kj::Array<kj::byte> sealedKeyIn(kj::StringPtr userData);
// Returns the bytes in a server's answer. Throws InvalidArgument.
kj::Array<kj::byte> bytesInAnswer(kj::ArrayPtr<const kj::byte> answer);

}  // namespace talos::parse
