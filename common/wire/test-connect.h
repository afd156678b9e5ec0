// Connects one TLS endpoint to another, for tests.
#pragma once

#include "common/wire/rpc-server.h"

namespace talos {

// `expectedName` must be a name in the certificate.
inline kj::Promise<kj::Own<Connection>> connectTls(kj::LowLevelAsyncIoProvider& lowLevel,
                                                   kj::Timer& timer, TlsEndpoint& tls,
                                                   kj::StringPtr address, uint16_t port,
                                                   kj::StringPtr expectedName,
                                                   kj::Duration deadline = 10 * kj::SECONDS) {
  Secure secure = [&tls, name = kj::str(expectedName)](kj::Own<kj::AsyncIoStream> stream) {
    return tls.connect(kj::mv(stream), name);
  };
  return connectTcp(lowLevel, timer, address, port, kj::mv(secure), deadline);
}

}  // namespace talos
