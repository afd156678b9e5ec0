#include "apid/grpc/grpc-protocol.h"

namespace talos::grpcapi {

OtherProtocol grpcProtocol(kj::Timer& timer, const GrpcApi& api) {
  return {
      .preface = "PRI ",
      .serve = [&timer, &api](kj::Own<kj::AsyncIoStream> stream,
                              capnp::Capability::Client bootstrap, kj::Promise<void> stop,
                              kj::Own<Budget::Account> account, kj::Own<CallObserver> observer) {
        auto mine = account.get() == nullptr ? kj::Own<Budget::Account>() : kj::addRef(*account);
        auto handler =
            api.open(timer, bootstrap.castAs<rpc::Cluster>(), kj::mv(mine), kj::mv(observer));
        auto serving =
            grpc::serveGrpc(timer, kj::mv(stream), *handler, {}, kj::mv(stop), kj::mv(account));
        return serving.attach(kj::mv(handler));
      }};
}

}  // namespace talos::grpcapi
