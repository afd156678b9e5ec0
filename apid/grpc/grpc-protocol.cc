#include "apid/grpc/grpc-protocol.h"

namespace talos::edge {

OtherProtocol secondFace(kj::Timer& timer, const Edge& edge) {
  return {"PRI ",
          [&timer, &edge](kj::Own<kj::AsyncIoStream> stream, capnp::Capability::Client bootstrap,
                          kj::Promise<void> stop, kj::Own<Budget::Account> account) {
            auto mine =
                account.get() == nullptr ? kj::Own<Budget::Account>() : kj::addRef(*account);
            auto handler = edge.open(timer, bootstrap.castAs<rpc::Cluster>(), kj::mv(mine));
            auto serving =
                grpc::serveGrpc(timer, kj::mv(stream), *handler, {}, kj::mv(stop), kj::mv(account));
            return serving.attach(kj::mv(handler));
          }};
}

}  // namespace talos::edge
