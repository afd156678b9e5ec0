// Which connections of apid's port are of its second face, and how they are served: HTTP/2 after
// TLS, told apart by how its preface begins. The connection has the limits of
// common/grpc/grpc-server.h, and counts against its client's account as one of the first face does.
#pragma once

#include "apid/grpc/grpc-api.h"
#include "common/wire/rpc-server.h"

namespace talos::edge {

// Of a port whose TLS says that it speaks HTTP/2 (TlsEndpoint::speakH2()): clients of gRPC insist
// on it. Both live longer than the server.
OtherProtocol secondFace(kj::Timer& timer, const Edge& edge);

}  // namespace talos::edge
