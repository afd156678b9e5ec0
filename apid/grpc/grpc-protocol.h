// The gRPC API as a second protocol of apid's port: HTTP/2 after TLS, recognized by its preface. A
// connection has the limits of common/grpc/grpc-server.h, and is charged to its client's account as
// a connection of our API is.
#pragma once

#include "apid/grpc/grpc-api.h"
#include "common/wire/rpc-server.h"

namespace talos::grpcapi {

// The port's TLS endpoint has to select "h2" (TlsEndpoint::enableHttp2()), as gRPC clients require
// it. Both arguments outlive the server.
OtherProtocol grpcProtocol(kj::Timer& timer, const GrpcApi& api);

}  // namespace talos::grpcapi
